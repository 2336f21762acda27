"""Taints and tolerations, and their matching.

Upstream: k8s.io/api core/v1 Toleration.ToleratesTaint and component-helpers scheduling/corev1.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, Protocol, TypeVar

from kplan.api.meta import Int64, KubeStruct

NO_SCHEDULE = "NoSchedule"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
NO_EXECUTE = "NoExecute"

COMPARISON_GATE: Final = "TaintTolerationComparisonOperators"
"""The feature gate without which the operators Lt and Gt tolerate nothing."""

_DECIMAL: Final = r"0|-?[1-9][0-9]{0,18}"
_FEW: Final = 16
"""Of so many pairs each is looked at: that is quicker than to arrange the tolerations."""
_INT64: Final = range(-(2**63), 2**63)


class Taint(KubeStruct, frozen=True):
    """A mark on a node that repels pods without a matching toleration."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class Toleration(KubeStruct, frozen=True):
    """Taints that a pod tolerates; an empty `key` or `effect` means any, an empty `operator` means Equal."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Int64 | None = None


class AnyTaint(Protocol):
    """A mark on a node or on a device."""

    @property
    def key(self) -> str: ...
    @property
    def value(self) -> str: ...
    @property
    def effect(self) -> str: ...


class AnyToleration(AnyTaint, Protocol):
    """A toleration of marks on nodes or on devices."""

    @property
    def operator(self) -> str: ...


T = TypeVar("T", bound=AnyTaint)


def tolerates(toleration: AnyToleration, taint: AnyTaint, *, compares: bool = False) -> bool:
    """Tell whether one toleration tolerates one taint.

    Parameters
    ----------
    compares : the gate COMPARISON_GATE is on, so Lt and Gt compare numbers; without it they tolerate nothing
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in {"", "Equal"}:
        return toleration.value == taint.value
    if compares and is_comparison(toleration):
        return _compares(toleration, taint)
    return toleration.operator == "Exists"


def _compares(toleration: AnyToleration, taint: AnyTaint) -> bool:
    """Tell whether the taint's value is less (Lt) or greater (Gt) than the toleration's; other texts are neither."""
    bound, value = _decimal(toleration.value), _decimal(taint.value)
    if bound is None or value is None:
        return False
    return value < bound if toleration.operator == "Lt" else value > bound


def _decimal(text: str) -> int | None:
    """Return the int64 that a text is in canonical form (no plus sign, no leading zeros), or None."""
    if not re.fullmatch(_DECIMAL, text):
        return None
    number = int(text)
    return number if number in _INT64 else None


class Tolerations:
    """Tolerations, arranged so that the time of a look-up does not grow with their number.

    Parameters
    ----------
    compares : as in `tolerates`
    """

    def __init__(self, tolerations: Iterable[AnyToleration], *, compares: bool = False) -> None:
        self._exists: set[tuple[str, str]] = set()  # keys and effects, empty for any
        self._equal: set[tuple[str, str, str]] = set()  # the same, and values
        self._above: dict[tuple[str, str], int] = {}  # values below this number are tolerated
        self._below: dict[tuple[str, str], int] = {}  # values above this number are tolerated
        for toleration in tolerations:
            scope = (toleration.key, toleration.effect)
            if toleration.operator in {"", "Equal"}:
                self._equal.add((*scope, toleration.value))
            elif toleration.operator == "Exists":
                self._exists.add(scope)
            elif compares and is_comparison(toleration) and (bound := _decimal(toleration.value)) is not None:
                if toleration.operator == "Lt":
                    self._above[scope] = max(bound, self._above.get(scope, bound))
                else:
                    self._below[scope] = min(bound, self._below.get(scope, bound))

    def tolerate(self, taint: AnyTaint) -> bool:
        key, value, effect = taint.key, taint.value, taint.effect
        scopes = ((key, effect), (key, ""), ("", effect), ("", ""))
        if not self._exists.isdisjoint(scopes) or not self._equal.isdisjoint([(*scope, value) for scope in scopes]):
            return True
        if not self._above and not self._below:
            return False
        number = _decimal(value)
        return number is not None and any(
            number < self._above.get(scope, number) or number > self._below.get(scope, number) for scope in scopes
        )


def untolerated(tolerations: Sequence[AnyToleration], taints: Sequence[T], *, compares: bool = False) -> tuple[T, ...]:
    """Return the taints that no toleration tolerates; the time grows with the sum of both numbers.

    Parameters
    ----------
    compares : as in `tolerates`
    """
    if len(tolerations) * len(taints) <= _FEW:
        return tuple(
            taint
            for taint in taints
            if not any(tolerates(toleration, taint, compares=compares) for toleration in tolerations)
        )
    own = _arranged(tuple(tolerations), compares)
    return tuple(taint for taint in taints if not own.tolerate(taint))


@lru_cache(maxsize=64)
def _arranged(tolerations: tuple[AnyToleration, ...], compares: bool) -> Tolerations:  # noqa: FBT001 - cached
    return Tolerations(tolerations, compares=compares)


def is_comparison(toleration: AnyToleration) -> bool:
    """Tell whether the toleration compares numbers (Lt, Gt), which needs the gate COMPARISON_GATE."""
    return toleration.operator in {"Lt", "Gt"}
