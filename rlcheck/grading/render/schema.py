"""The JSON Schema of the canonical report.

`python -m rlcheck.grading.render.schema docs/report.schema.json` writes it.
"""

import sys
from pathlib import Path
from typing import get_args

import msgspec

from rlcheck.grading.laws import Status
from rlcheck.grading.report import SCHEMA, Report

__all__ = ["schema"]

FUNCTION_STATUSES = ["passed", "failed", "missing", "unloadable"]


def schema() -> bytes:
    """JSON Schema 2020-12 of the report that this version writes."""
    described = msgspec.json.schema(Report)
    parts = described["$defs"]
    parts["LawReport"]["properties"]["status"]["enum"] = list(get_args(Status))
    parts["FunctionReport"]["properties"]["status"]["enum"] = FUNCTION_STATUSES
    described["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    described["title"] = f"rlcheck report, schema {SCHEMA}"
    return msgspec.json.format(msgspec.json.encode(described), indent=2) + b"\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(schema())
