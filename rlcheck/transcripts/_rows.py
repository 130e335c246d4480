"""Many rollouts: tables by rows or by columns, and JSON lines. No row loses another."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from rlcheck.transcripts._record import Record, build_record
from rlcheck.transcripts._sample import Sample, joined, listed, shown, text
from rlcheck.transcripts._told import Told


def convert_each(
    rows: Iterable[Any], task_id: Any, told: Told, read: Callable[[Sample, Told], None]
) -> list[Record]:
    """The record of each row; that of a row which is no sample says so."""
    rows = list(rows)
    one = isinstance(task_id, str)
    names = [text("task_id", task_id)] * len(rows) if one else listed("task_id", task_id, text)
    if len(names) != len(rows):
        raise ValueError(f"task_id has length {len(names)}; it must have length {len(rows)}")
    return [_convert(row, name, told, read) for row, name in zip(rows, names, strict=True)]


def _convert(row: Any, name: str, told: Told, read: Callable[[Sample, Told], None]) -> Record:
    try:
        if isinstance(row, Exception):
            raise row
        sample = Sample(row)
    except (TypeError, ValueError) as refusal:
        return build_record(Sample({}, str(refusal)), name, told)
    read(sample, told)
    return build_record(sample, name, told)


def table_rows(name: str, table: Any, known: set[str]) -> list[Any]:
    """The rows of a table; of one given by columns, those columns that are known."""
    table = joined(table)
    if not isinstance(table, Mapping) and not hasattr(table, "columns"):
        return listed(name, table)
    names = table.columns if hasattr(table, "columns") else table.keys()
    given = {c: table[c] for c in names if c in known}
    columns = {c: listed(f"{name}[{c!r}]", v) for c, v in given.items() if v is not None}
    if not columns:
        raise ValueError(f"{name} has none of the columns {', '.join(sorted(known))}")
    if len({len(entries) for entries in columns.values()}) > 1:
        lengths = ", ".join(f"{c} {len(entries)}" for c, entries in columns.items())
        raise ValueError(f"{name} has columns of different length: {lengths}")
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def json_lines(name: str, source: Any) -> Iterator[Any]:
    """The objects of a file, of a folder's files, or of lines; an error for what is none."""
    if not isinstance(source, str | PathLike):
        yield from _parsed(listed(name, source), "")
        return
    path = Path(source)
    files = [path]
    if path.is_dir():  # a file is named after its step
        files = sorted(path.glob("*.jsonl"), key=lambda file: (len(file.name), file.name))
    if not files:
        raise ValueError(f"{name} is {str(source)!r}; it has no file *.jsonl")
    for file in files:
        with file.open("rb") as lines:
            yield from _parsed(lines, f"{file.name} ")


def _parsed(lines: Iterable[Any], place: str) -> Iterator[Any]:
    for number, line in enumerate(lines, start=1):
        where, held = f"{place}line {number}", line
        try:
            if isinstance(line, str | bytes):
                words = line.decode("utf-8-sig") if isinstance(line, bytes) else line
                if not words.strip("\ufeff \t\r\n"):
                    continue
                held = json.loads(words.removeprefix("\ufeff"))
            known = isinstance(held, Mapping)
            yield held if known else TypeError(f"{where} is {shown(held)}; a JSON object is due")
        except (ValueError, RecursionError) as refusal:
            yield ValueError(f"{where} is no JSON: {refusal}")
