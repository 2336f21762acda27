"""Resource amounts that an API server accepts and that overflow int64 in the scheduler."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kplan.api.quantity import MAX_INT64, parse
from kplan.errors import Problem

_NANOS = 10**9
_HINT = "check the suffix: m is a thousandth, M is a million, E is 10^18"


def uncountable(spec: dict[str, Any], path: str) -> Iterator[Problem]:
    """Yield a problem for each amount of a pod's spec above the largest int64, for cpu in thousandths."""
    places = [(spec.get("resources", {}), f"{path}.resources"), ({"limits": spec.get("overhead", {})}, path)]
    for group in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(group, [])):
            places.append((container.get("resources", {}), f"{path}.{group}[{index}].resources"))
    for resources, at in places:
        for side in ("limits", "requests"):
            for name, amount in resources.get(side, {}).items():
                most = MAX_INT64 // 1000 if name == "cpu" else MAX_INT64
                if parse(amount).nanos > most * _NANOS:
                    where = "overhead" if at == path else side
                    message = f"{amount[:60]!r} is more than Kubernetes can count"
                    yield Problem(message, json_path=f"{at}.{where}.{name}", hint=_HINT)
