"""Values as Python that can be pasted: calls, arguments, answers."""

from typing import Any

import numpy as np

from rlcheck.grading.calls import Call, Raised
from rlcheck.grading.wire import TableFunction

LONGEST = 4000


def source(value: Any) -> str:
    """A value as Python source, given `import numpy as np`."""
    if isinstance(value, float):
        return repr(float(value)) if np.isfinite(value) else f'float("{float(value)}")'
    if isinstance(value, np.ndarray):
        return _array_source(value)
    if isinstance(value, np.generic):
        return f"np.{value.dtype.name}({source(value.item())})"
    if isinstance(value, list):
        return f"[{', '.join(map(source, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(source, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{source(k)}: {source(v)}" for k, v in value.items()) + "}"
    if isinstance(value, TableFunction):
        return f"{source(value.table)}.__getitem__"
    if isinstance(value, Raised):
        return str(value)
    return repr(value)


def _array_source(array: Any) -> str:
    entries = source(array.tolist()).replace('float("nan")', "np.nan")
    entries = entries.replace('float("inf")', "np.inf").replace('float("-inf")', "-np.inf")
    if 0 in array.shape and array.ndim > 1:
        return f"np.zeros({array.shape}, dtype=np.{_dtype(array)})"
    default = array.dtype in (np.float64, np.int64, np.bool_) and array.size > 0
    return f"np.array({entries})" if default else f"np.array({entries}, dtype=np.{_dtype(array)})"


def _dtype(array: Any) -> str:
    return "bool_" if array.dtype == np.bool_ else str(array.dtype.name)


def call_source(function: str, call: Call) -> str:
    """`function(arguments)` as one line of Python, cut where it is very long."""
    named = [f"{name}={source(value)}" for name, value in call.kwargs.items()]
    return shorten(f"{function}({', '.join([*map(source, call.args), *named])})")


def shown(value: Any) -> str | None:
    """A value for a report; None stays None, text stays as it is."""
    if value is None:
        return None
    return shorten(value if isinstance(value, str) else source(value))


def shorten(text: str) -> str:
    """The text, its middle cut out where it is very long."""
    if len(text) <= LONGEST:
        return text
    half = LONGEST // 2
    return f"{text[:half]} … {len(text) - 2 * half} characters … {text[-half:]}"
