"""CEL for device selectors: Google's parser and checker, and Kubernetes' values and costs."""

from __future__ import annotations

from kplan.cel.expression import (
    CelCompileError,
    DeviceExpression,
    Reads,
    compile_expression,
)
from kplan.cel.program import DeviceView
from kplan.cel.values import ABSENT, CelError, CostLimitError, DomainMap, Semver

__all__ = [
    "ABSENT",
    "CelCompileError",
    "CelError",
    "CostLimitError",
    "DeviceExpression",
    "DeviceView",
    "DomainMap",
    "Reads",
    "Semver",
    "compile_expression",
]
