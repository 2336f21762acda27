"""Labels that Karpenter knows; requirements on labels, as sets of interned values; and which of them may be asked.

A value of a label is a bit, so that sets of values are integers and set operations single instructions. Whole sets of
requirements are interned, too: comparing and joining two of them is done once, whatever number of pods and nodes say
the same.

Upstream: scheduling/requirement.go, scheduling/requirements.go; apis/v1/labels.go IsRestrictedLabel,
apis/v1/nodeclaim_validation.go ValidateRequirement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import reduce
from typing import NamedTuple

from kplan.api.affinity import NodeSelectorRequirement
from kplan.api.labels import ARCH, CURRENT_LABEL, HOSTNAME, INSTANCE_TYPE, NODEPOOL, OS, REGION, ZONE, parse_int64
from kplan.api.names import label_key_problems, label_value_problems
from kplan.api.provisioning import GROUP, REQUIREMENT_OPERATORS
from kplan.api.quantity import MAX_INT64

CAPACITY_TYPE = "karpenter.sh/capacity-type"
REGISTERED = "karpenter.sh/registered"
INITIALIZED = "karpenter.sh/initialized"
WINDOWS_BUILD = "node.kubernetes.io/windows-build"
RESERVATION_IDS = frozenset({"karpenter.kwok.sh/reservation-id", "karpenter.k8s.aws/capacity-reservation-id"})
"""The labels that name a reservation, by provider."""

SPOT = "spot"
ON_DEMAND = "on-demand"
RESERVED = "reserved"

WELL_KNOWN = frozenset({NODEPOOL, ZONE, REGION, INSTANCE_TYPE, ARCH, OS, CAPACITY_TYPE, WINDOWS_BUILD})

DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"

_CAPACITY_TYPES = (ON_DEMAND, RESERVED, SPOT)


class Requirement(NamedTuple):
    """What one label must be: one of `values` (bits), or with `is_complement` anything but these.

    Bounds, on integers, occur with `is_complement` only; `min_values` is how many values must stay possible.
    """

    key: str
    is_complement: bool
    values: int
    gte: int | None = None
    lte: int | None = None
    min_values: int | None = None

    @property
    def operator(self) -> str:
        """In, NotIn, Exists or DoesNotExist; bounds count as Exists."""
        if self.is_complement:
            return "NotIn" if self.values else "Exists"
        return "In" if self.values else "DoesNotExist"

    @property
    def allows_absence(self) -> bool:
        """Whether a node without the label may meet it."""
        return bool(self.values) == self.is_complement


class Requirements:
    """Requirements by label; made by a `Vocabulary`, which returns the same object for the same requirements.

    The one on the host name stands aside, so that what differs from node to node does not make all else different.
    """

    __slots__ = ("every", "has_min_values", "hostname", "items", "number")

    def __init__(self, number: int, every: dict[str, Requirement]) -> None:
        self.number, self.every = number, every
        self.items = {key: requirement for key, requirement in every.items() if key != HOSTNAME}
        self.hostname = every.get(HOSTNAME)
        self.has_min_values = any(requirement.min_values is not None for requirement in self.items.values())


class Misfit(NamedTuple):
    """Why requirements are not met: a node lacks the label (`existing` is None), or values exclude each other."""

    key: str
    incoming: Requirement
    existing: Requirement | None


class Vocabulary:
    """The values of all labels, and the sets of requirements, of one decision."""

    def __init__(self, well_known: Iterable[str], groups: Iterable[str] = ()) -> None:
        self.well_known = frozenset(well_known)  #: labels that new nodes may have although nothing says so
        #: labels in the domains of the API groups of node classes are the provider's own
        self._own_domains = tuple(sorted({GROUP, *groups}))
        self._bits: dict[str, dict[str, int]] = {}
        self._texts: dict[str, list[str]] = {}
        self._numbers: dict[str, list[int | None]] = {}
        self._interned: dict[frozenset[Requirement], Requirements] = {}
        self._within: dict[tuple[str, int, int | None, int | None], int] = {}
        self._joined: dict[tuple[int, int], Requirements] = {}
        self._judged: dict[tuple[int, int, bool], tuple[Misfit, ...]] = {}
        self._of_labels: dict[frozenset[tuple[str, str]], Requirements] = {}
        self.nothing = self.intern({})

    def bit(self, key: str, value: str) -> int:
        bits = self._bits.setdefault(key, {})
        if value not in bits:
            bits[value] = 1 << len(bits)
            self._texts.setdefault(key, []).append(value)
            self._numbers.setdefault(key, []).append(parse_int64(value))
        return bits[value]

    def bits(self, key: str, values: Iterable[str]) -> int:
        mask = 0
        for value in values:
            mask |= self.bit(key, value)
        return mask

    def texts(self, key: str, mask: int) -> list[str]:
        names = self._texts.get(key, [])
        return sorted(names[index] for index in bits_of(mask))

    def one(self, requirement: Requirement) -> str:
        """Return the first value of a set by name; empty for none."""
        return next(iter(self.texts(requirement.key, requirement.values)), "")

    def requirement(
        self, key: str, operator: str, values: Iterable[str] = (), min_values: int | None = None
    ) -> Requirement:
        """Make a requirement (upstream NewRequirementWithFlexibility)."""
        key = CURRENT_LABEL.get(key, key)
        if operator in {"In", "NotIn"}:
            return Requirement(key, operator == "NotIn", self.bits(key, values), min_values=min_values)
        if operator == "DoesNotExist":
            return Requirement(key, False, 0, min_values=min_values)  # noqa: FBT003 - a field of a tuple
        number = parse_int64(next(iter(values), "")) or 0
        if operator == "Gt" and number == MAX_INT64:
            return Requirement(key, False, 0)  # noqa: FBT003 - a field of a tuple
        gte = {"Gt": number + 1, "Gte": number}.get(operator)
        lte = {"Lt": number - 1, "Lte": number}.get(operator)
        return Requirement(key, True, 0, gte, lte, min_values)  # noqa: FBT003 - a field of a tuple

    def has(self, requirement: Requirement, value: str) -> bool:
        bit = self.bit(requirement.key, value)
        if bool(requirement.values & bit) == requirement.is_complement:
            return False
        return bool(self.within(requirement.key, bit, requirement.gte, requirement.lte))

    def within(self, key: str, mask: int, gte: int | None, lte: int | None) -> int:
        """Return the values of a set that are integers within bounds; without bounds all of them."""
        if (gte is None and lte is None) or not mask:
            return mask
        known = self._within.get((key, mask, gte, lte))
        if known is None:
            known = 0
            numbers = self._numbers[key]
            for index in bits_of(mask):
                number = numbers[index]
                if number is not None and (gte is None or number >= gte) and (lte is None or number <= lte):
                    known |= 1 << index
            self._within[key, mask, gte, lte] = known
        return known

    def intersection(self, one: Requirement, other: Requirement) -> Requirement:
        """Return what meets both (upstream Requirement.Intersection)."""
        gte, lte = _tighter(max, one.gte, other.gte), _tighter(min, one.lte, other.lte)
        min_values = _tighter(max, one.min_values, other.min_values)
        if gte is not None and lte is not None and gte > lte:
            return Requirement(one.key, False, 0, min_values=min_values)  # noqa: FBT003 - a field of a tuple
        is_complement = one.is_complement and other.is_complement
        values = self.within(one.key, _shared(one, other), gte, lte)
        if not is_complement:
            gte = lte = None
        return Requirement(one.key, is_complement, values, gte, lte, min_values)

    def agree(self, one: Requirement, other: Requirement) -> bool:
        """Tell whether a value, or the absence of the label, can meet both (upstream Requirement.HasIntersection)."""
        if one.allows_absence and other.allows_absence:
            return True
        gte, lte = _tighter(max, one.gte, other.gte), _tighter(min, one.lte, other.lte)
        if gte is not None and lte is not None and gte > lte:
            return False
        both_open = one.is_complement and other.is_complement
        return both_open or bool(self.within(one.key, _shared(one, other), gte, lte))

    def intern(self, items: Mapping[str, Requirement]) -> Requirements:
        key = frozenset(items.values())
        if key not in self._interned:
            self._interned[key] = Requirements(len(self._interned), dict(items))
        return self._interned[key]

    def of(self, requirements: Iterable[Requirement]) -> Requirements:
        """Return the set that meets all of several requirements."""
        items: dict[str, Requirement] = {}
        for requirement in requirements:
            items[requirement.key] = (
                self.intersection(requirement, items[requirement.key]) if requirement.key in items else requirement
            )
        return self.intern(items)

    def of_labels(self, labels: Mapping[str, str]) -> Requirements:
        key = frozenset(labels.items())
        if key not in self._of_labels:
            self._of_labels[key] = self.of(self.requirement(label, "In", (value,)) for label, value in labels.items())
        return self._of_labels[key]

    def of_expressions(self, expressions: Iterable[NodeSelectorRequirement]) -> Requirements:
        return self.of(self.requirement(wanted.key, wanted.operator, wanted.values) for wanted in expressions)

    def join(self, one: Requirements, other: Requirements) -> Requirements:
        if one is other or other is self.nothing:
            return one
        key = (one.number, other.number)
        if key not in self._joined:
            self._joined[key] = self.of((*one.every.values(), *other.every.values()))
        return self._joined[key]

    def join_all(self, several: Iterable[Requirements]) -> Requirements:
        return reduce(self.join, several, self.nothing)

    def replace(self, requirements: Requirements, *changed: Requirement) -> Requirements:
        return self.intern(requirements.every | {requirement.key: requirement for requirement in changed})

    def misfits(self, node: Requirements, incoming: Requirements, *, allows_well_known: bool) -> tuple[Misfit, ...]:
        """Tell why a node cannot meet what comes in; nothing if it can (upstream Requirements.Compatible).

        With `allows_well_known`, well-known labels need not be known of the node.
        """
        if incoming is self.nothing:
            return ()
        key = (node.number, incoming.number, allows_well_known)
        known = self._judged.get(key)
        if known is None:
            present, implied = node.every, self.well_known if allows_well_known else ()
            wanted = sorted(incoming.every.items())
            unknown = (own for label, own in wanted if label not in present and label not in implied)
            lacking = next((own for own in unknown if not own.allows_absence), None)
            differing = (own for label, own in wanted if label in present and not self.agree(present[label], own))
            if lacking is not None:  # it is told alone
                known = (Misfit(lacking.key, lacking, None),)
            else:
                known = tuple(Misfit(own.key, own, present[own.key]) for own in differing)
            self._judged[key] = known
        return known

    def overlap(self, one: Requirements, other: Requirements) -> bool:
        """Tell whether no label that both name excludes the other (upstream Requirements.Intersects)."""
        present = one.every
        return all(self.agree(present[key], wanted) for key, wanted in other.every.items() if key in present)

    def hostless(self, requirements: Requirements) -> Requirements:
        return requirements if requirements.hostname is None else self.intern(requirements.items)

    def host_misfits(self, hostname: str, incoming: Requirements) -> tuple[Misfit, ...]:
        """Tell whether the host name of a node is not what comes in wants; it is known of every node."""
        wanted = incoming.hostname
        if wanted is None or self.has(wanted, hostname):
            return ()
        return (Misfit(HOSTNAME, wanted, self.requirement(HOSTNAME, "In", (hostname,))),)

    def problems(self, wanted: NodeSelectorRequirement) -> Iterator[str]:
        """Yield why pods, pools and overlays may not have a requirement, in Karpenter's words."""
        key = CURRENT_LABEL.get(wanted.key, wanted.key)
        operator, values = wanted.operator, wanted.values
        if operator not in REQUIREMENT_OPERATORS:
            yield f"key {key} has an unsupported operator {operator} not in [{' '.join(REQUIREMENT_OPERATORS)}]"
        domain, slash, _ = key.partition("/")
        is_own = key == HOSTNAME or (slash and any(f".{domain}".endswith(f".{own}") for own in self._own_domains))
        if is_own and key not in self.well_known:
            yield (
                f"using label {key} is not allowed as it might interfere with the internal provisioning logic; specify"
                f" a well known label: [{' '.join(sorted(self.well_known))}], or a custom label that does not use a"
                f" restricted domain: [{' '.join(self._own_domains)}]"
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
        counts = [number for value in values if (number := parse_int64(value)) is not None and number >= 0]
        if operator in {"Gt", "Lt", "Gte", "Lte"} and not len(values) == len(counts) == 1:
            yield f"key {key} with operator {operator} must have a single positive integer value"


def bits_of(mask: int) -> Iterable[int]:
    """Yield the numbers of the bits of a set, in ascending order."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def set_of(numbers: Iterable[int]) -> int:
    """Return the set of some numbers, none of them twice."""
    return sum(1 << number for number in numbers)


def _shared(one: Requirement, other: Requirement) -> int:
    """Return the values that both name; of two complements those that either excludes."""
    if one.is_complement:
        return one.values | other.values if other.is_complement else other.values & ~one.values
    return one.values & ~other.values if other.is_complement else one.values & other.values


def _tighter(choose: Callable[[int, int], int], one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else choose(one, other)
