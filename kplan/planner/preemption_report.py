"""The answer of `kplan preempt`: whom pods would evict, what that frees and breaks, and where the victims go."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from kplan.documents.base import Condition, Context
from kplan.documents.placement import Outcome, PodPlacement, Rejection
from kplan.documents.preemption import NotHelped, NotHelpful, Preemption
from kplan.documents.preemption_report import Aftermath, PreemptionReport
from kplan.documents.queue import QueuePlace
from kplan.framework.queue import enqueue
from kplan.planner.base import Base
from kplan.planner.placement import Placement
from kplan.planner.placement_report import NodesOf, placements_told, summary
from kplan.planner.verdict import DEFAULT_FAIL_ON, judge
from kplan.preemption import PreemptionResult

_MOST_NODES = 5


def pending_in_turn(base: Base) -> list[str]:
    """List the pending pods that are tried at all, NAMESPACE/NAME, in the order of the scheduling queue."""
    session = base.session
    queue = enqueue(session, base.pending().rows)
    return [session.cluster.pods.infos[each.pod].key for each in queue if each.place is QueuePlace.ACTIVE]


def without_room(placements: Sequence[Placement]) -> list[Placement]:
    """Return the decisions about pods that did not fit as things were: their second ones, too, when they got in."""
    stuck = {each.pod.key for each in placements if each.outcome is not Outcome.SCHEDULED}
    return [each for each in placements if each.pod.key in stuck]


def preemption_report(
    context: Context,
    placements: Sequence[Placement],
    aftermath: Sequence[Aftermath] | None = None,
    *,
    fail_on: Sequence[Condition] | None = None,
    nodes_of: NodesOf | None = None,
    explain: bool = False,
) -> PreemptionReport:
    """Return the PreemptionReport.

    Parameters
    ----------
    aftermath : where the victims go; None when nobody asked
    fail_on : what makes the verdict a failure; None for the defaults of `preempt`
    nodes_of : as for `placement_report`
    explain : tell for every candidate what became of each of its pods of lower priority
    """
    chosen = DEFAULT_FAIL_ON["preempt"] if fail_on is None else fail_on
    shown = placements_told(placements, nodes_of)
    return PreemptionReport(
        snapshot=context.snapshot,
        scheduler=context.scheduler,
        verdict=judge(placements, context.warnings, chosen, accepts_preemption=True),
        summary=summary(placements),
        warnings=context.warnings,
        placements=tuple(
            _with_costs(placement, document, explain=explain)
            for placement, document in zip(placements, shown, strict=True)
        ),
        aftermath=None if aftermath is None else tuple(aftermath),
    )


def _with_costs(placement: Placement, document: PodPlacement, *, explain: bool) -> PodPlacement:
    """Add to the preemption of a placement what it takes to judge it."""
    result = placement.findings
    if not isinstance(result, PreemptionResult) or document.preemption is None:
        return document
    found = result.with_costs(document.preemption, reprieve=explain)
    return replace(document, preemption=replace(found, not_helpful=_not_helpful(placement, found)))


def _not_helpful(placement: Placement, found: Preemption) -> tuple[NotHelpful, ...]:
    """Group the nodes where no eviction helps by why: tried in vain, or not worth a try."""
    groups: dict[tuple[bool, str, str], list[str]] = {}
    rejections: dict[str, Rejection | NotHelped] = {**placement.rejections, **found.rejected}
    for name, rejection in rejections.items():
        if name not in found.candidates:
            for reason in rejection.reasons:
                groups.setdefault((name in found.rejected, rejection.plugin or "", reason), []).append(name)
    ordered = sorted(groups.items(), key=lambda item: (not item[0][0], -len(item[1]), item[0][1:]))
    return tuple(
        NotHelpful(
            tried=tried,
            plugin=plugin or None,
            reason=reason,
            nodes=len(nodes),
            examples=tuple(sorted(nodes)[:_MOST_NODES]),
        )
        for (tried, plugin, reason), nodes in ordered
    )
