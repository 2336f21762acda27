"""The decisions about pods as cases, for programs."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from kplan.documents.placement import Outcome, PlacementReport, PodPlacement, PreemptionReport
from kplan.report.daemons import daemon_message, is_daemon_set, nodes_text
from kplan.report.decision import decision_blocks, decision_heading
from kplan.report.options import ReportOptions
from kplan.report.overview import workload_name
from kplan.report.remedies import located
from kplan.report.text import detail_of
from kplan.report.view import Case, State
from kplan.report.words import grouped


def placement_cases(document: PlacementReport | PreemptionReport, options: ReportOptions) -> list[Case]:
    """Return a case for each pod; of a pod that was tried twice the last try counts."""
    placements = {placement.pod.key: placement for placement in document.placements}
    daemons = grouped(
        (workload_name(placement), placement) for placement in placements.values() if is_daemon_set([placement])
    )
    return [_case(placement, document, options, daemons) for placement in placements.values()]


def _case(
    placement: PodPlacement,
    document: PlacementReport | PreemptionReport,
    options: ReportOptions,
    daemons: Mapping[str, Sequence[PodPlacement]],
) -> Case:
    key = placement.pod.key
    counted = document.verdict.counted_of(key)
    is_scheduled = placement.outcome is Outcome.SCHEDULED
    state: State = "failed" if counted else "passed" if is_scheduled else "skipped"
    message = f"scheduled on {placement.node}" if is_scheduled else placement.diagnosis or placement.message
    members = daemons.get(workload_name(placement))
    if members and not is_scheduled:
        message = f"{nodes_text(members)}; {daemon_message(placement)}"
    if counted and is_scheduled:
        message = f"{', '.join(text_line.text for text_line in counted)}; {message}"
    explained = decision_blocks(placement, document.snapshot.nodes, options)
    blocks = itertools.chain([decision_heading(key, placement)], explained)
    rule = counted[0].rule if counted and is_scheduled else placement.outcome.value
    return located(Case(key, state, rule, message, detail_of(blocks, options)), placement)
