"""Groups of pods that are scheduled together, each told as one thing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import UnsetType
from msgspec.structs import replace

from kplan.api.references import object_name
from kplan.documents.base import Verdict
from kplan.documents.pod_groups import GroupPlan
from kplan.report.blocks import Block, Heading, Preformatted, Span, Style, line
from kplan.report.options import ReportOptions
from kplan.report.remedies import remedy_blocks, remedy_text
from kplan.report.view import Case, State
from kplan.report.words import count

_STYLES: dict[str, Style] = {"Scheduled": "good", "Partial": "warn"}


def group_text(group: GroupPlan) -> str:
    """Return in a few words what becomes of a group, without its name."""
    n_members = len(group.members)
    match group.state:
        case "Scheduled":
            domain = group.topology
            where = f"together on {domain.key.rpartition('/')[2]} {domain.value}" if domain else "run"
            text = f"{group.placed} of {n_members} {where}"
        case "Partial":
            text = f"{group.placed} of {n_members} run, the others fit nowhere"
        case "Gated":
            text = f"{count(n_members, 'pod')}, kept out of the queue"
        case "Error":
            text = f"{group.placed} of {n_members} run; the scheduler fails"
        case "Preempts":
            return f"{count(n_members, 'pod')}; the group fits by evicting {' and '.join(_evicted_names(group))}"
        case "Waits" if group.placed:
            more = f"; {group.fit - group.placed} of them would" if group.fit > group.placed else ""
            text = f"{group.placed} of {n_members} run, the others wait until enough of them fit{more}"
        case "Waits":
            needed = f" ({group.min_count} needed)" if group.min_count else ""
            text = f"{group.fit} of {n_members} fit{needed if group.min_count != n_members else ''}; the group waits"
    names = _evicted_names(group)
    return f"{text}, evicting {' and '.join(names)}" if names else text


def behind_groups(groups: Sequence[GroupPlan] | UnsetType, answer: str | Heading) -> str | Heading:
    """Return an answer about pods behind what becomes of all groups, in a few words."""
    if not groups:
        return answer
    n_whole = sum(group.state == "Scheduled" for group in groups)
    text = f"{n_whole} of {count(len(groups), 'group')} whole; "
    if len(groups) == 1:
        text = f"PodGroup {groups[0].key}: {group_text(groups[0])}; "
    return text + answer if isinstance(answer, str) else replace(answer, spans=(text, *answer.spans))


def group_blocks(groups: Sequence[GroupPlan], options: ReportOptions) -> Iterator[Block]:
    """Yield what becomes of each group, with kube-scheduler's messages about one that waits."""
    for group in groups:
        if len(groups) > 1 or (group.because and group.state != "Preempts"):
            text = f": {group.because}" if group.because and group.state != "Preempts" else ""
            yield line(f"PodGroup {group.key}: ", Span(group_text(group), _STYLES.get(group.state, "bad")), text)
        yield from remedy_blocks(group.remedies)
        if group.message:
            yield Preformatted("kube-scheduler writes into its condition", group.message)
        if options.in_full and group.evicted:
            yield line(f"It evicts {', '.join(group.evicted)}.")


def group_cases(groups: Sequence[GroupPlan], verdict: Verdict) -> Iterator[Case]:
    """Yield a case for each group."""
    for group in groups:
        name = object_name("PodGroup", group.namespace, group.name)
        counted = verdict.counted_of(name)
        whole = group.state == "Scheduled"
        message = group_text(group)
        detail = "\n".join(text for text in (message, group.message, group.because) if text)
        rule = counted[0].rule if counted else "Placed" if whole else "Pending"
        state: State = "failed" if counted else "passed" if whole else "skipped"
        would_help = remedy_text(group.remedies[0]) if group.remedies else ""
        yield Case(name, state, rule, message, detail, kind="object", would_help=would_help)


def _evicted_names(group: GroupPlan) -> list[str]:
    """Return the groups and single pods that leave for a group, in words."""
    names = [f"group {one.key} ({count(one.pods, 'pod')})" for one in group.evicted_groups]
    n_single = len(group.evicted) - sum(one.pods for one in group.evicted_groups)
    if n_single:
        names.append(count(n_single, "other pod" if names else "pod"))
    return names
