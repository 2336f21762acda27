"""Hundreds of instance types, to be asked at once.

A requirement, an amount of a resource, or a set of offerings is turned once into the set of types that meet it, the
bits of an integer; these are then joined by AND.

Upstream: provisioning/scheduling/nodeclaim.go filterInstanceTypesByRequirements; cloudprovider/types.go.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence

from kplan.api.labels import INSTANCE_TYPE, ZONE
from kplan.autoscaling.karpenter.amounts import Amounts, fits, most_of
from kplan.autoscaling.karpenter.instance_types import InstanceType, Offering
from kplan.autoscaling.karpenter.requirements import CAPACITY_TYPE, RESERVED, Requirements, Vocabulary, bits_of, set_of
from kplan.preemption.go_sort import go_sorted


class Columns:
    """Instance types, numbered in the order of the catalogue."""

    def __init__(
        self, types: Sequence[InstanceType], vocabulary: Vocabulary, *, varies_by_offering: bool = True
    ) -> None:
        self.types = tuple(types)
        self.vocabulary = vocabulary
        #: instance type -> its number, the first of several with the name; None, as what is not named, has none
        self.numbers: Mapping[str | None, int] = {
            entry.name: index for index, entry in reversed(list(enumerate(types)))
        }
        self.allocatable = [entry.allocatable for entry in self.types]
        self.capacity = [entry.capacity for entry in self.types]
        self.requirements = [vocabulary.of_expressions(entry.requirements) for entry in self.types]
        self.offerings: list[Offering] = []
        self._of_type: list[int] = []
        for entry in self.types:
            first = len(self.offerings)
            self.offerings += entry.offerings
            self._of_type.append(set_of(range(first, len(self.offerings))))
        self.offering_requirements = [vocabulary.of_expressions(offering.requirements) for offering in self.offerings]
        self._available = set_of(number for number, offering in enumerate(self.offerings) if offering.available)
        self.has_reserved = any(one.capacity_type == RESERVED and one.available for one in self.offerings)
        # Types whose overhead is more than they have take no pod.
        self._sound = set_of(
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
            for number in bits_of(self._of_type[index] & self._available):
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

    def matching(self, requirements: Requirements) -> int:
        """Return the types whose labels do not exclude requirements."""
        number, overlap = requirements.number, self.vocabulary.overlap
        if number not in self._matching:
            own = enumerate(self.requirements)
            self._matching[number] = set_of(index for index, labels in own if overlap(labels, requirements))
        return self._matching[number]

    def compatible_offerings(self, requirements: Requirements) -> int:
        """Return the offerings, available or not, that a node with these requirements can use."""
        number, misfits = requirements.number, self.vocabulary.misfits
        if number not in self._offered:
            own = enumerate(self.offering_requirements)
            self._offered[number] = set_of(
                index for index, wanted in own if not misfits(requirements, wanted, allows_well_known=True)
            )
        return self._offered[number]

    def offered(self, requirements: Requirements) -> int:
        """Return the types with an available offering that a node with these requirements can use."""
        offerings = self.compatible_offerings(requirements) & self._available
        if offerings not in self._with_offerings:
            own = enumerate(self._of_type)
            self._with_offerings[offerings] = set_of(index for index, has in own if has & offerings)
        return self._with_offerings[offerings]

    def roomy(self, wanted: Mapping[str, int]) -> int:
        """Return the types that have so much of every resource for pods."""
        mask = self._sound
        for name, amount in wanted.items():
            if name not in self._steps:
                amounts = [allocatable.get(name, 0) for allocatable in self.allocatable]
                steps = sorted(set(amounts))
                at_least = [set_of(index for index, own in enumerate(amounts) if own >= step) for step in steps]
                self._steps[name] = (steps, [*at_least, 0])
            values, types = self._steps[name]
            mask &= types[bisect_left(values, amount)]
        return mask

    def most(self, types: int) -> Amounts:
        """Return the highest allocatable amount of each resource among some types."""
        if types not in self._highest:
            varying = (self._variants[index] for index in self._variants if types >> index & 1)
            own = (self.allocatable[index] for index in bits_of(types))
            self._highest[types] = most_of((*own, *(amounts for variants in varying for amounts, _ in variants)))
        return self._highest[types]

    def within(self, types: int, limits: Mapping[str, int]) -> int:
        own = ((index, self.capacity[index]) for index in bits_of(types))
        return set_of(i for i, has in own if all(has.get(name, 0) <= limit for name, limit in limits.items()))

    def most_capacity(self, types: Iterable[int]) -> Amounts:
        """Return the highest capacity of each resource among some types."""
        return most_of(self.capacity[index] for index in types)

    def offerings_of(
        self, index: int, requirements: Requirements | None = None, *, available: bool = True
    ) -> list[Offering]:
        """Return a type's offerings: all, or those that requirements allow."""
        mask = self._of_type[index]
        if available:
            mask &= self._available
        if requirements is not None:
            mask &= self.compatible_offerings(requirements)
        return [self.offerings[number] for number in bits_of(mask)]

    def node_price(self, labels: Mapping[str, str]) -> float | None:
        """Return the lowest price of an offering, available or not, that the labels of a node allow; None for none."""
        index, wanted = self.numbers.get(labels.get(INSTANCE_TYPE)), self.vocabulary.of_labels(labels)
        offerings = () if index is None else self.offerings_of(index, wanted, available=False)
        return min((one.price for one in offerings), default=None)

    def listed_price(self, labels: Mapping[str, str]) -> float:
        """Return the price of the first offering of a node's zone and capacity type; 0 for none."""
        index = self.numbers.get(labels.get(INSTANCE_TYPE))
        place = labels.get(ZONE, ""), labels.get(CAPACITY_TYPE, "")
        offerings = () if index is None else self.types[index].offerings
        return next((one.price for one in offerings if (one.zone, one.capacity_type) == place), 0.0)

    def reservations(self, types: int, requirements: Requirements) -> list[str]:
        """Return what the available reserved offerings of some types draw on that requirements allow."""
        offerings = (one for index in bits_of(types) for one in self.offerings_of(index, requirements))
        return [one.reservation for one in offerings if one.capacity_type == RESERVED]

    def by_price(self, types: Sequence[int], requirements: Requirements) -> list[int]:
        """Return types by their cheapest available offering that requirements allow; those without come last.

        Equal ones are in the order in which Go's sort leaves them (upstream OrderByPrice).
        """
        known = self._prices.get(requirements.number)
        if known is None:
            known = self._prices[requirements.number] = [
                min((one.price for one in self.offerings_of(number, requirements)), default=math.inf)
                for number in range(len(self.types))
            ]
        return go_sorted(types, (known[index] for index in types))

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
            own = self.requirements[index].items
            for requirement in wanted:
                key = requirement.key
                values[key] |= own[key].values if key in own else 0
                if values[key].bit_count() < (requirement.min_values or 0):
                    lacking[key] = values[key].bit_count()
                else:
                    lacking.pop(key, None)
            if not lacking:
                return count, {}
        return len(types), lacking
