"""The answer of `kplan preempt`: which pods are evicted, what that frees and violates, and where the victims go."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET
from msgspec.structs import replace

from kplan.api.quantity import grouped
from kplan.cluster.base import Base
from kplan.course.answers.placement import Placement, pending_placement
from kplan.course.answers.plan import NodesOf, Plan, placement_documents, summary
from kplan.course.answers.verdict import conditions, judge, judged
from kplan.course.asking import Showing
from kplan.course.carried_out import CarriedOut, Decisions
from kplan.course.carry_out import carry_out
from kplan.course.simulation.queue import in_turn
from kplan.course.task import Task, WorkedOff
from kplan.documents.base import Condition
from kplan.documents.placement import Aftermath, PodPlacement, PreemptionReport, Rejection
from kplan.documents.plan import QueuePlace
from kplan.framework.results import NotHelped, NotHelpful, Outcome, Preemption
from kplan.preemption.result import PreemptionResult
from kplan.remedies.replicas import owned_replicas

_MOST_NODES = 5


def pending_in_turn(base: Base) -> list[str]:
    """List the pending pods that kube-scheduler tries, NAMESPACE/NAME, in the order of the scheduling queue."""
    session = base.session
    queue = in_turn(session, base.pending.rows)
    return [session.cluster.pods.infos[queued.pod].key for queued in queue if queued.place is QueuePlace.ACTIVE]


def without_room(placements: Sequence[Placement]) -> list[Placement]:
    """Return all decisions about the pods that do not fit without evictions, also those after the evictions."""
    stuck = {placement.pod.key for placement in placements if placement.outcome is not Outcome.SCHEDULED}
    return [placement for placement in placements if placement.pod.key in stuck]


def preemption_report(
    plan: Plan,
    placements: Sequence[Placement],
    *,
    fail_on: Sequence[Condition] | None = None,
    nodes_of: NodesOf | None = None,
    explain: bool = False,
) -> PreemptionReport:
    """Return the PreemptionReport about some placements of a plan, without where the victims go.

    With `explain` it tells for every candidate node which of its pods of lower priority are reprieved, and which not.
    """
    context, nodes, groups = plan.context, plan.nodes, plan.groups
    chosen = conditions(fail_on, "preempt")
    shown = zip(placements, placement_documents(placements, nodes_of), strict=True)
    new = () if nodes is None else [node.name for node in nodes.added]
    verdict = judge(placements, context.warnings, chosen, accepts_preemption=True, new_nodes=new, groups=groups)
    return PreemptionReport(
        **judged(context, verdict),
        summary=summary(placements, groups),
        placements=tuple(_with_costs(placement, document, explain=explain) for placement, document in shown),
        aftermath=None,
        nodes=UNSET if nodes is None else nodes,
        groups=tuple(groups) or UNSET,
    )


def _with_costs(placement: Placement, document: PodPlacement, *, explain: bool) -> PodPlacement:
    """Add to the preemption of a placement what the evictions cost, and on which nodes they do not help."""
    result = placement.findings
    if not isinstance(result, PreemptionResult) or document.preemption is None:
        return document
    preemption = result.with_costs(document.preemption, reprieve=explain)
    return replace(document, preemption=replace(preemption, not_helpful=_not_helpful(placement, preemption)))


def _not_helpful(placement: Placement, preemption: Preemption) -> tuple[NotHelpful, ...]:
    """Group the nodes where no eviction helps by reason, those first on which a dry run fails."""
    rejections: dict[str, Rejection | NotHelped] = {**placement.rejections, **preemption.rejected}
    groups = grouped(
        ((name in preemption.rejected, rejection.plugin or "", reason), name)
        for name, rejection in sorted(rejections.items())
        if name not in preemption.candidates
        for reason in rejection.reasons
    )
    ordered = sorted(groups.items(), key=lambda item: (not item[0][0], -len(item[1]), item[0][1:]))
    return tuple(
        NotHelpful(
            tried=tried, plugin=plugin or None, reason=reason, nodes=len(names), examples=tuple(names[:_MOST_NODES])
        )
        for (tried, plugin, reason), names in ordered
    )


def follow_victims(base: Base, queue: WorkedOff) -> tuple[tuple[Aftermath, ...], CarriedOut]:
    """Return where each victim goes when pods preempt in queue order, in the order of eviction, and the whole course.

    A victim's replacement may evict others in turn; those are followed, too. The placements explain no single nodes.
    """
    decisions = Decisions(Showing(nodes=(), others=(), explain=True, is_whole=True))
    change = carry_out(base, Task(queue=queue), decisions)
    simulation = change.simulation
    infos = simulation.infos
    unreplaced = {pod.row for lost in simulation.life.lost.values() for pod in lost}
    aftermath = []
    for removal in simulation.life.removals:
        if removal.by is None:
            continue
        replacement = simulation.life.replaced_by.get(removal.pod.row)
        placement = None if replacement is None else decisions.placed.get(infos[replacement].key)
        if replacement in simulation.pods and not simulation.pods[replacement].node:
            replicas = owned_replicas(simulation.session, replacement)
            placement = pending_placement(simulation, replacement, replicas).to_document(())
        aftermath.append(
            Aftermath(
                victim=removal.pod.key,
                by=removal.by,
                from_node=removal.pod.node,
                recreated_as=None if replacement is None else infos[replacement].key,
                circling=bool(simulation.circle) and removal.pod.row in unreplaced,
                placement=placement,
            )
        )
    return tuple(aftermath), change
