"""The RemedyReport: what to do so that pending pods run, with commands to paste, and other ways."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import UNSET

from kplan.api.quantity import capitalized, clause, count, grouped, listing
from kplan.changes.limits import RaiseQuota
from kplan.changes.remedy import Await, Remedy, RepairNode
from kplan.changes.remedy_words import remedy_words
from kplan.changes.values import AddNodes, Change, Move, Patch, Scale
from kplan.documents.nodes import AddedNode, new_node_text
from kplan.documents.remedies import RemedyReport, RemedySet
from kplan.health.advice import pod_advice, way_on, ways_on
from kplan.health.words import pod_text, workload_text
from kplan.health.workloads import WorkloadHealth
from kplan.report.blocks import Block, Heading, Preformatted, Span, line
from kplan.report.decision import remedy_text
from kplan.report.new_nodes import added_cases, cost_text, followed_line, unhelped_blocks
from kplan.report.options import ReportOptions
from kplan.report.view import Case, View, state_of

_MOST_NAMED = 5
_MOST_HELD_UP = 10


def _body(document: RemedyReport, options: ReportOptions) -> Iterator[Block]:
    by_itself = document.nodes
    if by_itself and by_itself.added:
        yield line(f"{by_itself.autoscaler.name} adds {_new_nodes(by_itself.added)} by itself.")
    yield from _held_up(document)
    yield from _actions(document.remedy, document)
    if by_itself:
        helped = (pod for pod in document.pods if pod not in document.remedy.left)
        none_for = grouped((by_itself.why_none(pod), pod) for pod in helped)
        yield from (line(f"For {listing(pods, most=2)} {why}.") for why, pods in none_for.items() if why)
    yield from _leaving(document)
    if document.remedy.left:
        yield from _left(document)
        if changes := document.remedy.nodes:
            yield from unhelped_blocks(changes.unhelped, is_whole=options.shows_all)
    if document.remedy.actions:
        tried = f"{count(document.tried, 'set')} of actions tried"
        least = f"{tried}: none that disturbs fewer pods does as much."
        words = least if document.remedy.is_least else f"{tried}; another one may disturb fewer pods."
        yield line(Span(words, "dim"))
    yield from _other_ways(document)
    if by_itself:
        yield followed_line(by_itself.autoscaler)


def _other_ways(document: RemedyReport) -> Iterator[Block]:
    for alternative in document.alternatives:
        yield Heading((f"Or: {_summary(alternative)}; then {_ends(alternative)}",))
        yield from _actions(alternative, document)
    first = _comes_first(document)
    for remedy in document.beside or ():
        if remedy is not first:
            yield Heading((f"Or: {remedy_text(remedy)}",))


def _held_up(document: RemedyReport) -> Iterator[Block]:
    """Yield the workloads that are not held up by nodes, with the command that has one go on; actions raise quotas."""
    raised = any(isinstance(action, RaiseQuota) for action in document.remedy.actions)
    workloads, leading = document.workloads or (), _leading_workload(document)
    for health in workloads[:_MOST_HELD_UP]:
        words, command = ("", "") if raised and health.refused.raises else way_on(health)
        if (health.is_short or command) and health is not leading:
            yield line(workload_text(health), is_item=True)
        if command:
            of = "" if len(workloads) == 1 else f" ({health.ref.path})"
            yield line(f"{words}{of}: {command}")
    yield from map(line, ways_on(workloads[:_MOST_HELD_UP]))
    if len(workloads) > _MOST_HELD_UP:
        yield line(f"and {count(len(workloads) - _MOST_HELD_UP, 'more workload')}", is_item=True)


def _left(document: RemedyReport) -> Iterator[Block]:
    """Yield the pods that stay pending, and why: those of one reason together, unless the first sentence tells it."""
    reasons, helpful = document.because or {}, document.would_help or {}
    stated = reasons.get(_first_left(document), "") if _tells_left(document) else ""
    for reason, pods in grouped((reasons.get(pod, ""), pod) for pod in document.remedy.left).items():
        in_answer = bool(stated) and reason == stated
        if len(pods) > 1 or not in_answer:
            names = f"Stays pending: {listing(pods, most=_MOST_NAMED)}."
            yield line(names if in_answer else f"{names} {reason}".rstrip())
        texts = dict.fromkeys(remedy_text(helpful[pod]) for pod in pods if pod in helpful)
        for text in () if in_answer else texts:
            yield line(Span("What would help", "strong"), f": {text}.", is_item=True)


def _tells_left(document: RemedyReport) -> bool:
    """Return whether the first sentence says why a pod stays pending: there is no action, and not all run without."""
    remedy = document.remedy
    return bool(document.pods) and not remedy.actions and (not remedy.of or remedy.runs < remedy.of)


def _leaving(document: RemedyReport) -> Iterator[Block]:
    for number, health in enumerate(document.leaving or ()):
        if document.pods or number:
            yield line(pod_text(health), is_item=True)
        yield from map(line, pod_advice(health))


def _leading_workload(document: RemedyReport) -> WorkloadHealth | None:
    """Return the workload that the first sentence tells of; None where it is about pods alone."""
    workloads = document.workloads or ()
    short = next((health for health in workloads if health.is_short), None)
    return short if short is not None or document.pods or not workloads else workloads[0]


def _sentence(document: RemedyReport) -> str:
    leading = _leading_workload(document)
    if leading is not None and not leading.is_short:
        return f"No pod is pending; {workload_text(leading)}"
    if leading is not None:
        short = sum(health.is_short for health in document.workloads or ())
        more = f"; and {count(short - 1, 'more workload')}" if short > 1 else ""
        pending = f". {_pods_sentence(document)}" if document.pods else ""
        return f"{workload_text(leading)}{more}{pending}"
    return _pods_sentence(document)


def _pods_sentence(document: RemedyReport) -> str:
    """Return what to do first, and what then runs; where nothing is done which pod stays pending, and why."""
    remedy = document.remedy
    if not document.pods:
        return pod_text(document.leaving[0]) if document.leaving else "No pod is pending"
    if remedy.actions:
        before = _comes_first(document)
        text = f"{remedy_words(before)}{_for_some(before)}; or {_summary(remedy)}" if before else _summary(remedy)
        return f"{capitalized(text)}; then {_ends(remedy)}{_besides(document)}"
    if not _tells_left(document):
        waits = dict.fromkeys(remedy_text(helpful) for helpful in (document.would_help or {}).values())
        enough = listing([*waits], most=2) or "nothing needs to be done"
        if document.nodes and document.nodes.added:
            enough = "the autoscaler does all by itself"
        return f"{_all_run(remedy)}: {_by_evicting(document) or enough}"
    first, reasons = _first_left(document), document.because or {}
    like = max(sum(reason == reasons.get(first) for reason in reasons.values()), 1)
    who = f"{first} and {count(like - 1, 'other pod')} stay pending" if like > 1 else f"{first} stays pending"
    why = f": {clause(reasons[first])}" if reasons.get(first) else ""
    helpful = (document.would_help or {}).get(first)
    ending = "no action helps" if helpful is None else f"what would help: {remedy_text(helpful)}"
    others = len(document.pods) - remedy.runs - like
    return f"{who}{why}; {ending}" + (f"; {count(others, 'other pod')} too" if others else "") + _besides(document)


def _by_evicting(document: RemedyReport) -> str:
    """Return which pod gets in by evicting others, and how many besides; empty for none."""
    if not document.evicts:
        return ""
    (by, victims), *more = document.evicts.items()
    besides = f", and {count(len(more), 'more pod')} by evicting others" if more else ""
    return f"{by} gets in by evicting {listing(victims, most=2)}{besides}"


def _besides(document: RemedyReport) -> str:
    evicting = _by_evicting(document)
    return f"; {evicting}" if evicting else ""


def _first_left(document: RemedyReport) -> str:
    """Return the pod of which the first sentence says why it stays pending, where there are no actions."""
    reasons = document.because or {}
    return next((pod for pod in (*document.remedy.left, *document.pods) if pod in reasons), document.pods[0])


def _comes_first(document: RemedyReport) -> Remedy | None:
    """Return what is to be repaired or waited for before nodes are added or anything that people wrote is changed."""
    is_late = {type(action) for action in document.remedy.actions} & {AddNodes, Patch, Scale}
    return next((one for one in document.beside or () if is_late and isinstance(one, RepairNode | Await)), None)


def _for_some(remedy: Remedy) -> str:
    """Return for how many pods of a workload a remedy is, where that is not for all."""
    helped = remedy.helps
    return f" (for {helped.pods} of {helped.of} pods)" if helped and helped.pods < helped.of else ""


def _ends(remedy: RemedySet) -> str:
    """Return what runs after all actions, how many of the pods that is, and what is not wanted any more."""
    achieved = list(dict.fromkeys(name for action in remedy.actions for name in action.achieves or ()))
    dropped = [pod for action in remedy.actions if isinstance(action, Scale) for pod in action.drops or ()]
    parts = [f"{listing(achieved, most=2)} {_runs(len(achieved))}"] if achieved else []
    parts += [_not_wanted(dropped, most=2)] if dropped else []
    if not parts:
        return _all_run(remedy)
    is_one = not remedy.of or remedy.runs == remedy.of == 1
    return " and ".join(parts) + ("" if is_one else f" ({remedy.runs} of {count(remedy.of, 'pod')})")


def _not_wanted(pods: Sequence[str], most: int) -> str:
    return f"{listing(pods, most=most)} {'is' if len(pods) == 1 else 'are'} not wanted any more"


def _all_run(remedy: RemedySet) -> str:
    return f"{remedy.runs} of {count(remedy.of, 'pod')} {_runs(remedy.runs)}"


def _summary(remedy: RemedySet) -> str:
    texts = [action.words for action in remedy.actions]
    more = f"; and {len(texts) - _MOST_NAMED} more" if len(texts) > _MOST_NAMED else ""
    return "; ".join(texts[:_MOST_NAMED]) + more


def _actions(remedy: RemedySet, document: RemedyReport) -> Iterator[Block]:
    is_single = len(remedy.actions) == 1
    for number, action in enumerate(remedy.actions, 1):
        others = _others(action)
        if not is_single:
            yield line(Span(f"Step {number}: ", "strong"), f"{action.words}{_effects(action)}")
        elif others:
            yield line(f"It deletes {listing(others, most=_MOST_NAMED)}.")
        yield Preformatted("", "\n".join(action.steps), indent=2)
    if remedy.undo:
        yield line(Span("At the end: ", "strong"), "as before")
        yield Preformatted("", "\n".join(remedy.undo), indent=2)
    followed = remedy.nodes if remedy.actions else UNSET
    if followed:
        # What the autoscaler adds with the actions, where that is not the same without them.
        alone = _kinds(document.nodes.added) if document.nodes else []
        if _kinds(followed.added) != alone:
            added = _new_nodes(followed.added) if followed.added else "no node"
            yield line(f"{followed.autoscaler.name} then adds {added}{' in all' if alone else ''}.")
    if remedy.price:
        cost = cost_text(abs(remedy.price), followed.autoscaler if followed else UNSET)
        yield line(f"Saves {cost}." if remedy.price < 0 else f"Costs {cost} more.")


def _kinds(nodes: Sequence[AddedNode]) -> list[tuple[object, ...]]:
    return [(new.instance_type, new.zone, new.pool, new.group) for new in nodes]


def _new_nodes(nodes: Sequence[AddedNode]) -> str:
    kinds = Counter(map(new_node_text, nodes))
    return listing([f"{count(number, 'node')} ({text})" for text, number in kinds.items()], most=_MOST_NAMED)


def _effects(action: Change) -> str:
    parts = []
    if action.achieves:
        parts.append(f"then {listing(action.achieves, most=_MOST_NAMED)} {_runs(len(action.achieves))}")
    if isinstance(action, Scale) and action.drops:
        parts.append(_not_wanted(action.drops, _MOST_NAMED))
    if others := _others(action):
        parts.append(f"deletes {listing(others, most=_MOST_NAMED)}")
    return f": {'; '.join(parts)}" if parts else ""


def _others(action: Change) -> list[str]:
    """Return the pods that an action deletes besides those that it moves."""
    moved = {place.pod for place in action.pods} if isinstance(action, Move) else ()
    return [pod for pod in action.disturbs or () if pod not in moved]


def _runs(number: int) -> str:
    return "runs" if number == 1 else "run"


def _cases(document: RemedyReport, options: ReportOptions) -> Iterator[Case]:
    if document.remedy.nodes:
        yield from added_cases(document.remedy.nodes.added, document.verdict)
    for pod in document.pods:
        if pod not in document.remedy.left:
            yield Case(pod, "passed", "Scheduled", f"runs after {_summary(document.remedy) or 'nothing'}")
        else:
            because = (document.because or {}).get(pod)
            message = "no action was found that lets it run" + (f": {because}" if because else "")
            yield Case(pod, state_of(document.verdict, pod), "Unschedulable", message)
    for health in document.leaving or ():
        yield Case(health.pod, "skipped", "Deleting", pod_text(health))


VIEW = View[RemedyReport](
    _sentence,
    _body,
    _cases,
    lambda document: (*(step for action in document.remedy.actions for step in action.steps), *document.remedy.undo),
    style=lambda one: (
        "bad" if one.verdict.failed or one.remedy.runs < one.remedy.of else "warn" if one.remedy.left else "good"
    ),
)
