"""Why a pod that runs is where it is: the cluster without it, asked again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from kplan.api.core import Pod
from kplan.planner.document import header, placements_document, summary, warnings_of
from kplan.planner.explanation import Shown
from kplan.planner.not_found import has_ended, no_pod
from kplan.planner.placement import Placement
from kplan.planner.run import run_in_order
from kplan.planner.verdict import DEFAULT_FAIL_ON, judge
from kplan.rules.pod_info import PodInfo

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kplan.planner.planner import Planner

__all__ = ["Whereabouts", "explain_pod", "explanation_report"]


@dataclass(frozen=True)
class Whereabouts:
    """Where a pod is, and where it would go today.

    Attributes
    ----------
    node : the node that it runs on; None for a pending pod
    placement : the decision about it, as if it did not run yet
    """

    node: str | None
    placement: Placement

    @property
    def still_fits(self) -> bool | None:
        """Whether its node passes all filters; None for a pending pod."""
        return None if self.node is None else self.node in self.placement.feasible_nodes

    @property
    def is_still_best(self) -> bool | None:
        """Whether its node is one of the best; None for a pending pod."""
        return None if self.node is None else self.node in self.placement.ties

    def current(self) -> dict[str, Any] | None:
        """Return what a report says of the node that the pod runs on."""
        if self.node is None:
            return None
        score = self.placement.scores.get(self.node)
        best = self.placement.scores.get(self.placement.node or "")
        return {
            "node": self.node,
            "stillFits": self.still_fits,
            "stillBest": self.is_still_best,
            "score": None if score is None else score.total,
            "bestScore": None if best is None else best.total,
        }


def explain_pod(planner: Planner, key: str) -> Whereabouts:
    """Explain where a pod of the snapshot is; a running pod is taken off its node first, on a private copy.

    Raises
    ------
    NotFoundError
        When the snapshot has no such pod.
    UsageError
        When the pod has ended.
    """
    pod = planner.world.pod_by_key.get(key)
    if pod is None:
        raise no_pod(key, planner.world.pod_by_key)
    if error := has_ended(pod):
        raise error
    if not pod.spec.node_name:
        return Whereabouts(None, planner.place(key))
    return Whereabouts(pod.spec.node_name, _place_again(planner, key, pod))


def _place_again(planner: Planner, key: str, pod: Pod) -> Placement:
    session = planner.session.fork()
    row = planner.session.find(key)
    if row is not None and pod.spec.node_name in session.cluster.nodes.row_of:
        session.evict(row)
    again = session.add_pod(PodInfo(_as_pending(pod)))
    result = next(iter(run_in_order(session, [again], settle_preemption=False)))
    return planner.placement_of(session, result)


def _as_pending(pod: Pod) -> Pod:
    metadata = replace(pod.metadata, deletion_timestamp=None)
    spec = replace(pod.spec, node_name="", scheduling_gates=())
    return replace(
        pod, metadata=metadata, spec=spec, status=replace(pod.status, nominated_node_name="", phase="Pending")
    )


def explanation_report(
    planner: Planner,
    found: Whereabouts,
    *,
    fail_on: Sequence[str] | None = None,
    nodes: Iterable[str] | Shown | None = None,
    exit_zero: bool = False,
) -> dict[str, Any]:
    """Return a PlacementReport about one pod; its placement says under ``current`` where the pod runs."""
    placements = [found.placement]
    verdict = judge(placements, planner.warnings, DEFAULT_FAIL_ON["explain"] if fail_on is None else fail_on)
    told = placements_document(placements, {0: _with_own(found, nodes)})
    told[0]["current"] = found.current()
    return {
        **header(planner, "PlacementReport"),
        "verdict": verdict.to_dict(exit_zero=exit_zero),
        "summary": summary(placements),
        "warnings": warnings_of(planner.warnings),
        "placements": told,
    }


def _with_own(found: Whereabouts, nodes: Iterable[str] | Shown | None) -> Iterable[str] | Shown | None:
    """Add the pod's own node to those that are told about."""
    if isinstance(nodes, Shown) and found.node is not None:
        return Shown(nodes.top, nodes.with_score_details, (found.node,))
    return nodes
