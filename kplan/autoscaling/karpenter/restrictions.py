"""Which requirements pods, pools and overlays may have.

Upstream: apis/v1/labels.go IsRestrictedLabel, apis/v1/nodeclaim_validation.go ValidateRequirement.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kplan.api.affinity import NodeSelectorRequirement
from kplan.api.labels import parse_int64
from kplan.api.names import label_key_problems, label_value_problems
from kplan.api.wellknown import HOSTNAME
from kplan.autoscaling.karpenter.names import CAPACITY_TYPE, ON_DEMAND, RESERVED, SPOT
from kplan.autoscaling.karpenter.requirements import NORMALIZED

_GROUP = "karpenter.sh"
_OPERATORS = ("DoesNotExist", "Exists", "Gt", "Gte", "In", "Lt", "Lte", "NotIn")
_CAPACITY_TYPES = (ON_DEMAND, RESERVED, SPOT)


class Restrictions:
    """The labels that a provider of nodes keeps to itself.

    Parameters
    ----------
    well_known : labels that requirements may always name
    groups : the API groups of the node classes; labels of their domain are the provider's
    """

    def __init__(self, well_known: Iterable[str], groups: Iterable[str]) -> None:
        self._well_known = frozenset(well_known)
        self._domains = tuple(sorted({_GROUP, *groups}))

    def problems(self, wanted: NodeSelectorRequirement) -> list[str]:
        """Return what is wrong with a requirement, in Karpenter's words."""
        return list(self._problems(wanted))

    def _problems(self, wanted: NodeSelectorRequirement) -> Iterator[str]:
        key = NORMALIZED.get(wanted.key, wanted.key)
        operator, values = wanted.operator, wanted.values
        if operator not in _OPERATORS:
            yield f"key {key} has an unsupported operator {operator} not in [{' '.join(_OPERATORS)}]"
        if self.is_restricted(key):
            yield (
                f"using label {key} is not allowed as it might interfere with the internal provisioning logic; specify"
                f" a well known label: [{' '.join(sorted(self._well_known))}], or a custom label that does not use a"
                f" restricted domain: [{' '.join(self._domains)}]"
            )
        if key == CAPACITY_TYPE and operator == "In" and not set(values) & set(_CAPACITY_TYPES):
            known = " ".join(f"{capacity_type}:{{}}" for capacity_type in _CAPACITY_TYPES)
            shown = f"[{' '.join(values)}]"
            yield f"no valid values found in {shown} for {key}, expected one of: map[{known}], got: {shown}"
        for problem in label_key_problems(key):
            yield f"key {key} is not a qualified name, {problem}"
        for value in values:
            for problem in label_value_problems(value):
                yield f"invalid value {value} for key {key}, {problem}"
        if operator == "In" and not values:
            yield f"key {key} with operator {operator} must have a value defined"
        if operator in {"Gt", "Lt", "Gte", "Lte"} and not _is_one_count(values):
            yield f"key {key} with operator {operator} must have a single positive integer value"

    def is_restricted(self, key: str) -> bool:
        """Tell whether a label is the provider's own."""
        if key in self._well_known:
            return False
        domain, slash, _ = key.partition("/")
        domain = domain if slash else ""
        return key == HOSTNAME or any(domain == own or domain.endswith(f".{own}") for own in self._domains)


def _is_one_count(values: tuple[str, ...]) -> bool:
    return len(values) == 1 and (parse_int64(values[0]) or 0) >= 0 and parse_int64(values[0]) is not None
