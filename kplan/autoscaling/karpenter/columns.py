"""The instance types of a pool as columns of bits: sets of types are integers.

A requirement, an amount of a resource, or a set of offerings is turned once into the set of types that meet it; to ask
hundreds of types at once is then an AND of a few integers.

Upstream: provisioning/scheduling/nodeclaim.go filterInstanceTypesByRequirements, cloudprovider/types.go.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from kplan.api.labels import ZONE
from kplan.autoscaling.karpenter.amounts import CAPACITY_TYPE, INSTANCE_TYPE, RESERVED, Amounts, fits, most_of
from kplan.autoscaling.karpenter.instance_types import InstanceType, Offering
from kplan.autoscaling.karpenter.requirements import Requirements, Vocabulary, bits_of
from kplan.preemption.go_sort import go_sorted

_NO_PRICE = float("inf")


class Columns:
    """Instance types, numbered in the order of the catalogue."""

    def __init__(
        self, types: Sequence[InstanceType], vocabulary: Vocabulary, *, varies_by_offering: bool = True
    ) -> None:
        self.types = tuple(types)
        self.vocabulary = vocabulary
        self._numbers = {entry.name: index for index, entry in reversed(list(enumerate(types)))}
        self.allocatable = [entry.allocatable for entry in self.types]
        self.capacity = [entry.capacity for entry in self.types]
        self.requirements = [vocabulary.of_expressions(entry.requirements) for entry in self.types]
        self.offerings: list[Offering] = []
        self.offering_requirements: list[Requirements] = []
        self._of_type: list[int] = []
        self._available = 0
        for entry in self.types:
            mask = 0
            for offering in entry.offerings:
                bit = 1 << len(self.offerings)
                mask |= bit
                if offering.available:
                    self._available |= bit
                self.offerings.append(offering)
                self.offering_requirements.append(vocabulary.of_expressions(offering.requirements))
            self._of_type.append(mask)
        self.has_reserved = any(one.capacity_type == RESERVED and one.available for one in self.offerings)
        # Types whose overhead is more than they have take no pod.
        self._sound = self._types(
            index for index, amounts in enumerate(self.allocatable) if all(amount >= 0 for amount in amounts.values())
        )
        #: type -> what pods can use of its machines, with the available offerings that have so much; for types whose
        #: offerings differ in that
        self._variants = dict(self._varying()) if varies_by_offering else {}
        self._matching: dict[int, int] = {}
        self._offered: dict[int, int] = {}
        self._with_offerings: dict[int, int] = {}
        #: resource -> its different amounts, and the types with at least as much as each; last, none
        self._steps: dict[str, tuple[list[int], list[int]]] = {}
        self._highest: dict[int, Amounts] = {}
        self._prices: dict[int, list[float]] = {}

    def _varying(self) -> Iterator[tuple[int, list[tuple[Amounts, int]]]]:
        for index, entry in enumerate(self.types):
            if not any(one.capacity_override or one.overhead_override is not None for one in entry.offerings):
                continue
            variants: dict[frozenset[tuple[str, int]], int] = {}
            for number in self.offerings_of(index):
                amounts = frozenset(entry.allocatable_at(self.offerings[number]).items())
                variants[amounts] = variants.get(amounts, 0) | 1 << number
            yield index, [(dict(amounts), offerings) for amounts, offerings in variants.items()]

    def fitting(self, wanted: Mapping[str, int], requirements: Requirements) -> int:
        """Return the types with an available offering that requirements allow, and that has so much for pods."""
        types = self.roomy(wanted) & self.offered(requirements)
        for index, variants in self._variants.items():
            allowed = self.compatible_offerings(requirements)
            fit = any(offerings & allowed and fits(wanted, amounts) for amounts, offerings in variants)
            types = types | 1 << index if fit else types & ~(1 << index)
        return types

    def number_of(self, name: str | None) -> int | None:
        """Return the number of the instance type of a name; None for none."""
        return None if name is None else self._numbers.get(name)

    def only(self, types: int, names: Collection[str]) -> int:
        """Return those of some types that have one of some names."""
        return self._types(index for index in bits_of(types) if self.types[index].name in names)

    def _types(self, indices: Iterable[int]) -> int:
        mask = 0
        for index in indices:
            mask |= 1 << index
        return mask

    def matching(self, requirements: Requirements) -> int:
        """Return the types whose labels do not exclude requirements."""
        known = self._matching.get(requirements.number)
        if known is None:
            overlap = self.vocabulary.overlap
            known = self._matching[requirements.number] = self._types(
                index for index, own in enumerate(self.requirements) if overlap(own, requirements)
            )
        return known

    def compatible_offerings(self, requirements: Requirements) -> int:
        """Return the offerings, available or not, that a node with these requirements can use."""
        known = self._offered.get(requirements.number)
        if known is None:
            misfits = self.vocabulary.misfits
            known = 0
            for index, own in enumerate(self.offering_requirements):
                if not misfits(requirements, own, allows_well_known=True):
                    known |= 1 << index
            self._offered[requirements.number] = known
        return known

    def offered(self, requirements: Requirements) -> int:
        """Return the types with an available offering that a node with these requirements can use."""
        offerings = self.compatible_offerings(requirements) & self._available
        known = self._with_offerings.get(offerings)
        if known is None:
            known = self._with_offerings[offerings] = self._types(
                index for index, own in enumerate(self._of_type) if own & offerings
            )
        return known

    def roomy(self, wanted: Mapping[str, int]) -> int:
        """Return the types that have so much of every resource for pods."""
        mask = self._sound
        for name, amount in wanted.items():
            if name not in self._steps:
                amounts = [allocatable.get(name, 0) for allocatable in self.allocatable]
                steps = sorted(set(amounts))
                at_least = [self._types(index for index, own in enumerate(amounts) if own >= step) for step in steps]
                self._steps[name] = (steps, [*at_least, 0])
            values, types = self._steps[name]
            mask &= types[bisect_left(values, amount)]
        return mask

    def most(self, types: int) -> Amounts:
        """Return the highest allocatable amount of each resource among some types."""
        known = self._highest.get(types)
        if known is None:
            variants = (
                amounts for index in self._variants if types >> index & 1 for amounts, _ in self._variants[index]
            )
            own = (self.allocatable[index] for index in bits_of(types))
            known = self._highest[types] = most_of((*own, *variants))
        return known

    def within(self, types: int, limits: Mapping[str, int]) -> int:
        own = ((index, self.capacity[index]) for index in bits_of(types))
        return self._types(i for i, has in own if all(has.get(name, 0) <= limit for name, limit in limits.items()))

    def most_capacity(self, types: Iterable[int]) -> Amounts:
        """Return the highest capacity of each resource among some types."""
        return most_of(self.capacity[index] for index in types)

    def offerings_of(
        self, index: int, requirements: Requirements | None = None, *, available: bool = True
    ) -> list[int]:
        """Return the numbers of a type's offerings: of all, or of those that requirements allow."""
        mask = self._of_type[index]
        if available:
            mask &= self._available
        if requirements is not None:
            mask &= self.compatible_offerings(requirements)
        return list(bits_of(mask))

    def node_price(self, labels: Mapping[str, str]) -> float | None:
        """Return the lowest price of an offering, available or not, that the labels of a node allow; None for none."""
        index = self.number_of(labels.get(INSTANCE_TYPE))
        numbers = () if index is None else self.offerings_of(index, self.vocabulary.of_labels(labels), available=False)
        return min((self.offerings[number].price for number in numbers), default=None)

    def listed_price(self, labels: Mapping[str, str]) -> float:
        """Return the price of the first offering of a node's zone and capacity type; 0 for none."""
        index = self.number_of(labels.get(INSTANCE_TYPE))
        place = labels.get(ZONE, ""), labels.get(CAPACITY_TYPE, "")
        offerings = () if index is None else self.types[index].offerings
        return next((one.price for one in offerings if (one.zone, one.capacity_type) == place), 0.0)

    def reservable(self, types: int, requirements: Requirements) -> list[int]:
        """Return the available reserved offerings of some types that requirements allow."""
        allowed = self.compatible_offerings(requirements)
        return [
            offering
            for index in bits_of(types)
            for offering in self.offerings_of(index)
            if self.offerings[offering].capacity_type == RESERVED and allowed >> offering & 1
        ]

    def launch_price(self, index: int, requirements: Requirements) -> float:
        """Return the price of the cheapest available offering that requirements allow; infinity for none."""
        known = self._prices.get(requirements.number)
        if known is None:
            known = self._prices[requirements.number] = [
                min((self.offerings[one].price for one in self.offerings_of(number, requirements)), default=_NO_PRICE)
                for number in range(len(self.types))
            ]
        return known[index]

    def by_price(self, types: Sequence[int], requirements: Requirements) -> list[int]:
        """Return types, the cheapest first (upstream OrderByPrice), equal ones as Go's sort leaves them."""
        return go_sorted(types, (self.launch_price(index, requirements) for index in types))

    def needed_for_min_values(self, types: Sequence[int], requirements: Requirements) -> tuple[int, dict[str, int]]:
        """Tell how many of some types, from the first on, have the values that must stay possible.

        Where all are not enough, also the labels with the number of their values (upstream SatisfiesMinValues).
        """
        wanted = [requirement for requirement in requirements.items.values() if requirement.min_values is not None]
        if not wanted:
            return 0, {}
        values = dict.fromkeys((requirement.key for requirement in wanted), 0)
        lacking: dict[str, int] = {}
        for count, index in enumerate(types, 1):
            own = self.requirements[index]
            for requirement in wanted:
                key = requirement.key
                mine = own.get(key)
                values[key] |= 0 if mine is None else mine.values
                if values[key].bit_count() < (requirement.min_values or 0):
                    lacking[key] = values[key].bit_count()
                else:
                    lacking.pop(key, None)
            if not lacking:
                return count, {}
        return len(types), lacking
