"""CEL for device selectors: Google's library, with Kubernetes' types and functions.

The compiler is imported when it is first used: few clusters have devices.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kplan.cel.values import ABSENT, CelCompileError, CelError, CostLimitError, Semver, UnsupportedError

if TYPE_CHECKING:
    from kplan.cel.device_view import DeviceView
    from kplan.cel.expression import DeviceExpression, Reads, compile_expression

__all__ = [
    "ABSENT",
    "CelCompileError",
    "CelError",
    "CostLimitError",
    "DeviceExpression",
    "DeviceView",
    "Reads",
    "Semver",
    "UnsupportedError",
    "compile_expression",
]

_HOMES = {
    "DeviceExpression": "kplan.cel.expression",
    "DeviceView": "kplan.cel.device_view",
    "Reads": "kplan.cel.expression",
    "compile_expression": "kplan.cel.expression",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
