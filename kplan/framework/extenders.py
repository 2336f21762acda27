"""Scheduler extenders, as a cycle calls them.

Upstream: pkg/scheduler/extender.go, schedule_one.go findNodesThatPassExtenders and prioritizeNodes.
The room above implements `Extender` and sends the requests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from kplan.api.core import Node, Pod


class ExtenderError(Exception):
    """An extender did not answer, or not in a usable way."""


class ExtenderFilterResult(msgspec.Struct, frozen=True):
    """The nodes that an extender accepts, and why it rejects the others."""

    nodes: Sequence[str]  #: names of the nodes that passed
    failed: Mapping[str, str]  #: name -> message; preemption may help
    unresolvable: Mapping[str, str]  #: name -> message; preemption cannot help


class ExtenderVictims(msgspec.Struct, frozen=True):
    """Victims on one node: pod keys (NAMESPACE/NAME), most important first."""

    pods: Sequence[str]
    num_pdb_violations: int


PodsOn = Callable[[str], Mapping[str, Pod]]
"""Node name -> the pods that run there, by NAMESPACE/NAME: an extender may name other victims than those proposed."""


class Extender(Protocol):
    """One configured extender."""

    name: str
    weight: int
    is_ignorable: bool
    filters: bool
    prioritizes: bool
    preempts: bool

    def is_interested(self, pod: Pod) -> bool:
        """Whether the pod requests a resource that this extender manages, or the extender manages all pods."""

    def filter(self, pod: Pod, nodes: Sequence[Node]) -> ExtenderFilterResult:
        """Return which nodes pass; raises ExtenderError."""

    def prioritize(self, pod: Pod, nodes: Sequence[Node]) -> Mapping[str, int]:
        """Return scores by node name, 0 to 10; raises ExtenderError."""

    def preempt(
        self, pod: Pod, victims: Mapping[str, ExtenderVictims], pods_on: PodsOn
    ) -> Mapping[str, ExtenderVictims]:
        """Return the candidates that the extender accepts, with their victims; raises ExtenderError."""
