"""Values as Python that can be pasted: calls, arguments, answers."""

from itertools import groupby
from typing import Any

import numpy as np

from rlcheck.catalogue import Function
from rlcheck.grading.calls import Call, Raised
from rlcheck.grading.wire import TableFunction, printable

LONGEST = 4000
MOST_ENTRIES = 200
MOST_SHOWN, AT_EACH_END = 32, 8  # entries of a vector in a report
LONG = 200  # characters
LONG_LIST, MOST_RUNS = 16, 4


def source(value: Any) -> str:
    """A value as Python source, given `import numpy as np`."""
    if isinstance(value, float):
        return repr(float(value)) if np.isfinite(value) else f'float("{float(value)}")'
    if isinstance(value, np.ndarray):
        return _array_source(value)
    if isinstance(value, np.generic):
        return f"np.{value.dtype.name}({source(value.item())})"
    if isinstance(value, list):
        return _in_runs(value) or f"[{', '.join(map(source, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(source, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, set) and value:
        return f"{{{', '.join(sorted(map(source, value)))}}}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{source(k)}: {source(v)}" for k, v in value.items()) + "}"
    if isinstance(value, TableFunction):
        return f"{source(value.table)}.__getitem__"
    if isinstance(value, Raised):
        return str(value)
    return repr(value)


def _in_runs(entries: list[Any]) -> str:
    """A long list that consists of few runs of equal entries, as a sum of these; or ""."""
    if len(entries) < LONG_LIST:
        return ""
    runs = [(text, len(list(same))) for text, same in groupby(map(source, entries))]
    if len(runs) > MOST_RUNS:
        return ""
    return " + ".join(f"[{text}]" + (f" * {n}" if n > 1 else "") for text, n in runs)


def _array_source(array: Any) -> str:
    entries = source(array.tolist()).replace('float("nan")', "np.nan")
    entries = entries.replace('float("inf")', "np.inf").replace('float("-inf")', "-np.inf")
    if 0 in array.shape and array.ndim > 1:
        return f"np.zeros({array.shape}, dtype=np.{_dtype(array)})"
    default = array.dtype in (np.float64, np.int64, np.bool_) and array.size > 0
    return f"np.array({entries})" if default else f"np.array({entries}, dtype=np.{_dtype(array)})"


def _dtype(array: Any) -> str:
    return "bool_" if array.dtype == np.bool_ else str(array.dtype.name)


def call_source(function: Function, call: Call, *, tensors: bool = False) -> str:
    """The call as Python, given `import torch` where it takes tensors; cut where very long.

    A gradient takes three lines: the argument, the answer, and its derivative.
    """
    write = tensor_source if tensors or call.backward else source
    values = dict(zip(function.parameters, call.args, strict=False)) | call.kwargs
    written = {name: write(value) for name, value in values.items()}
    if call.backward is None:
        return shorten(f"{function.name}({_arguments(written, len(call.args))})")
    wrt = call.backward.wrt
    leaf = function.parameters[wrt] if isinstance(wrt, int) else wrt
    made = written[leaf].removesuffix(")") + ", requires_grad=True)"
    if not written[leaf].startswith("torch.tensor("):
        made = f"torch.tensor({written[leaf]}, dtype=torch.float64, requires_grad=True)"
    written[leaf] = leaf
    field = f".{call.backward.field[0]}" if call.backward.field else ""
    answer = f"answer = {function.name}({_arguments(written, len(call.args))}){field}"
    weights = "torch.ones_like(answer)"
    if call.backward.weights is not None:
        entries = source(np.asarray(call.backward.weights).tolist())
        weights = f"torch.tensor({entries}, dtype=torch.float64).to(answer)"
    # The second term is 0; with it an answer without a gradient has one of 0.
    slope = f"torch.autograd.grad(answer + 0 * {leaf}.sum(), {leaf}, {weights})"
    return "\n".join(map(shorten, (f"{leaf} = {made}", answer, slope)))


def _arguments(written: dict[str, str], positional: int) -> str:
    pairs = enumerate(written.items())
    return ", ".join(text if i < positional else f"{name}={text}" for i, (name, text) in pairs)


def tensor_source(value: Any) -> str:
    """A value as it arrives with `--tensors`, as Python source, given `import torch`."""
    try:
        array = np.asarray(value)
    except (ValueError, OverflowError):
        return source(value)
    if not isinstance(value, list | tuple | np.ndarray) or array.dtype.kind not in "biuf":
        return source(value)
    entries = source(array.tolist())
    if 0 in array.shape and array.ndim > 1:
        return f"torch.zeros({array.shape}, dtype=torch.{array.dtype.name})"
    if array.dtype in (np.int64, np.bool_):
        return f"torch.tensor({entries})"
    return f"torch.tensor({entries}, dtype=torch.{array.dtype.name})"


def vector(value: Any) -> list[float | None] | None:
    """A vector's entries as plain numbers, None where not finite; None for anything else.

    Of a long vector the first 200 entries.
    """
    try:
        array = np.asarray(value)
    except (ValueError, OverflowError):
        return None
    if array.ndim != 1 or array.dtype.kind not in "biuf":
        return None
    entries = array[:MOST_ENTRIES].astype(np.float64).tolist()
    return [entry if np.isfinite(entry) else None for entry in entries]


def shown(value: Any) -> str | None:
    """A value for a report; None stays None, text stays as it is, where it is printable.

    Of a long vector the first entries and the last are shown.
    """
    if value is None or isinstance(value, str):
        return value if value is None else shorten(printable(value))
    entries = value.tolist() if isinstance(value, np.ndarray) and value.ndim == 1 else value
    written = source(value)
    if not isinstance(entries, list) or len(entries) <= MOST_SHOWN or len(written) <= LONG:
        return shorten(written)
    ends = [source(value[part]) for part in (slice(None, AT_EACH_END), slice(-AT_EACH_END, None))]
    left, right = ends[0].rpartition("]"), ends[1].partition("[")
    between = f", … {len(entries) - 2 * AT_EACH_END} entries …, "
    return shorten(f"{left[0]}{between}{right[2]}")


def shorten(text: str, longest: int = LONGEST) -> str:
    """The text, its middle cut out where it is very long."""
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]} … {len(text) - 2 * half} characters … {text[-half:]}"
