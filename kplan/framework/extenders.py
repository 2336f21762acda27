"""Scheduler extenders: which pods they care about, and how their answers change nodes and scores.

Upstream: pkg/scheduler/extender.go, schedule_one.go findNodesThatPassExtenders and prioritizeNodes.
Who sends the requests is not known here: an `Extender` is handed in from above.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from kplan.api.core import Node, Pod


class ExtenderError(Exception):
    """An extender did not answer, or not in a usable way."""


@dataclass(frozen=True, slots=True)
class ExtenderFilterResult:
    """What is left of the nodes, and why the others are not."""

    nodes: Sequence[str]  #: names of the nodes that passed
    failed: Mapping[str, str]  #: name -> message; preemption may help
    unresolvable: Mapping[str, str]  #: name -> message; nothing helps


@dataclass(frozen=True, slots=True)
class ExtenderVictims:
    """Victims on one node: pod keys (NAMESPACE/NAME), most important first."""

    pods: Sequence[str]
    num_pdb_violations: int


PodsOn = Callable[[str], Mapping[str, Pod]]
"""Node name -> the pods that run there, by NAMESPACE/NAME; an extender may name others than were proposed."""


class Extender(Protocol):
    """One configured extender."""

    name: str
    weight: int
    is_ignorable: bool
    filters: bool
    prioritizes: bool
    preempts: bool

    def is_interested(self, pod: Pod) -> bool:
        """Tell whether the pod asks for a resource that this extender manages (or it manages all pods)."""

    def filter(self, pod: Pod, nodes: Sequence[Node]) -> ExtenderFilterResult:
        """Ask which nodes pass; raises ExtenderError."""

    def prioritize(self, pod: Pod, nodes: Sequence[Node]) -> Mapping[str, int]:
        """Ask for scores, 0 to 10 a node; raises ExtenderError."""

    def preempt(
        self, pod: Pod, victims: Mapping[str, ExtenderVictims], pods_on: PodsOn
    ) -> Mapping[str, ExtenderVictims]:
        """Ask which candidates, with which victims, are acceptable; raises ExtenderError."""
