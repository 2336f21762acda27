"""CEL for device selectors: Google's parser and checker, and Kubernetes' values and costs."""

from __future__ import annotations

from kplan.plugins.dynamic_resources.cel.expression import (
    CelCompileError,
    DeviceExpression,
    DeviceVariables,
    Reads,
    compile_expression,
)
from kplan.plugins.dynamic_resources.cel.values import CelError, CostLimitError, DomainMap, Semver

__all__ = [
    "CelCompileError",
    "CelError",
    "CostLimitError",
    "DeviceExpression",
    "DeviceVariables",
    "DomainMap",
    "Reads",
    "Semver",
    "compile_expression",
]
