"""CEL for device selectors: Google's library, with Kubernetes' types and functions."""

from __future__ import annotations

from kplan.cel.expression import CelCompileError, DeviceExpression, Reads, compile_expression
from kplan.cel.looks import DeviceView
from kplan.cel.values import ABSENT, CelError, CostLimitError, Semver, UnsupportedError

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
