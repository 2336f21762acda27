"""One pod's placement, as the contract describes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from kplan.documents.placement import Outcome
from kplan.planner.explanation import Explanation, NodeScore, ReasonCount, Rejection, Shown
from kplan.preemption.result import PreemptionResult
from kplan.rules.pod_info import PodInfo

Explain = Callable[[Iterable[str] | Shown | None], Explanation]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a pod that is not in the snapshot comes from."""

    file: str
    document: int | None = None
    kind: str = "Pod"
    name: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {"file": self.file, "document": self.document, "kind": self.kind, "name": self.name}


@dataclass(frozen=True, slots=True)
class PodRef:
    """Who is placed."""

    namespace: str
    name: str
    uid: str
    priority: int
    scheduler_name: str
    origin: Origin | None = None

    @staticmethod
    def of(info: PodInfo, origin: Origin | None = None) -> PodRef:
        """Name a pod."""
        return PodRef(info.namespace, info.name, info.uid, info.priority, info.pod.spec.scheduler_name, origin)

    @property
    def key(self) -> str:
        """NAMESPACE/NAME."""
        return f"{self.namespace}/{self.name}"

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        found: dict[str, Any] = {
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
            "priority": self.priority,
            "schedulerName": self.scheduler_name,
        }
        if self.origin is not None:
            found["from"] = self.origin.to_dict()
        return found


@dataclass(frozen=True)
class Placement:
    """A decision about one pod.

    Where the nodes of a large cluster are concerned, `explain(nodes)` tells about some of them; the properties tell
    about all and are worked out when first asked for.

    Attributes
    ----------
    node : the chosen node, None unless scheduled
    message : byte for byte what kube-scheduler would write into the pod's PodScheduled condition; empty when scheduled
    tell_preemption : makes the contract's preemption object; None when no preemption was considered
    nominated_node : node that preemption found, or None
    preemption_result : what DefaultPreemption looked at; None when it was not asked
    """

    pod: PodRef
    outcome: Outcome
    node: str | None
    message: str
    explain: Explain = field(repr=False, compare=False)
    tell_preemption: Callable[[], Mapping[str, Any]] | None = field(default=None, repr=False, compare=False)
    nominated_node: str | None = None
    preemption_result: PreemptionResult | None = field(default=None, repr=False, compare=False)

    @cached_property
    def victims(self) -> Sequence[Mapping[str, Any]]:
        """Pods that would be evicted, as the contract has them; less work than the whole preemption object."""
        return () if self.preemption_result is None else self.preemption_result.victims()

    @cached_property
    def preemption(self) -> Mapping[str, Any] | None:
        """The contract's preemption object, complete for all nodes; None when no preemption was considered."""
        return None if self.tell_preemption is None else self.tell_preemption()

    @cached_property
    def explanation(self) -> Explanation:
        """The decision explained for all nodes."""
        return self.explain(None)

    @property
    def ties(self) -> tuple[str, ...]:
        """Every node with the best total score, by name."""
        return self.explanation.ties

    @property
    def feasible_nodes(self) -> tuple[str, ...]:
        """Nodes that passed all filters, by name."""
        return self.explanation.feasible_nodes

    @property
    def not_evaluated(self) -> tuple[str, ...]:
        """Nodes that the scheduler would not have looked at."""
        return self.explanation.not_evaluated

    @property
    def rejections(self) -> Mapping[str, Rejection]:
        """Why each rejected node was rejected."""
        return self.explanation.rejections

    @property
    def rejection_summary(self) -> tuple[ReasonCount, ...]:
        """How many nodes were rejected for what."""
        return self.explanation.rejection_summary

    @property
    def scores(self) -> Mapping[str, NodeScore]:
        """Scores of the feasible nodes; empty when one or none is feasible."""
        return self.explanation.scores

    def to_outline(self) -> dict[str, Any]:
        """Return who, what and where without any why, for tables that tell about a few of many placements."""
        return {
            "pod": self.pod.to_dict(),
            "outcome": self.outcome.value,
            "node": self.node,
            "message": self.message,
        }

    def to_dict(self, nodes: Iterable[str] | Shown | None = None) -> dict[str, Any]:
        """Return the JSON form, about all nodes or only those named or shown."""
        found = self.explanation if nodes is None else self.explain(nodes)
        return {
            "pod": self.pod.to_dict(),
            "outcome": self.outcome.value,
            "node": self.node,
            "ties": list(found.ties),
            "message": self.message,
            "feasibleCount": found.feasible_count,
            "feasibleNodes": list(found.feasible_nodes),
            "notEvaluatedCount": found.not_evaluated_count,
            "notEvaluated": list(found.not_evaluated),
            "rejections": {name: rejection.to_dict() for name, rejection in found.rejections.items()},
            "rejectionSummary": [count.to_dict() for count in found.rejection_summary],
            "scores": {name: score.to_dict() for name, score in found.scores.items()},
            "scoreDetails": {
                node: {plugin: list(lines) for plugin, lines in told.items()}
                for node, told in found.score_details.items()
            },
            "preemption": None if self.preemption is None else dict(self.preemption),
        }
