"""Two answers to one question, about two clusters or two sets of manifests, and why they differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from msgspec import UNSET
from msgspec.structs import replace

from kplan.api.core import Node, Pod
from kplan.api.labels import ZONE
from kplan.api.names import WorkloadRef
from kplan.capacity.templates import own_workloads
from kplan.changes.values import Delete
from kplan.cluster.incoming import IncomingPod
from kplan.cluster.workload_pods import parse_reference
from kplan.course.answers.at_rest import pods_at_rest
from kplan.course.answers.plan import Plan
from kplan.course.answers.utilisation import cluster_usage, largest
from kplan.course.answers.verdict import with_warnings
from kplan.course.asking import Showing
from kplan.course.carried_out import CarriedOut, Decisions
from kplan.course.carry_out import Opening, carry_out
from kplan.course.in_order import place_in_order
from kplan.course.report import change_report
from kplan.course.subject import Subject, has_updates
from kplan.course.task import Task, WorkedOff
from kplan.course.what_if import changed
from kplan.diagnosis.explanation import Shown
from kplan.documents.base import Report
from kplan.documents.diff import Blame, DiffReport, WorkloadDifference
from kplan.facts import InputWarning
from kplan.questions.diff.document import ComparedAnswer, diff_report, tallies_of
from kplan.rules.pod_info import PodInfo
from kplan.rules.resources import PODS, quantity_text, resource_order
from kplan.workloads import Manifests

_MOST_PARTS = 12  #: so many parts of a change are taken away, the first ones: each is the whole question once more
NOT_IN_MANIFESTS = "NotInManifests"


def compare(subjects: tuple[Subject, Subject], titles: tuple[str, str], showing: Showing) -> DiffReport:
    """Return how answers to two questions differ, with the manifests that cause that workloads wait."""
    before, after = subjects
    # Both sides run the same course: what only one of them set in motion would look like a difference.
    changes_some = any(one.manifests is not None and has_updates(one.manifests, one.base.snapshot) for one in subjects)
    openings = [_opening(subject, has_updates=changes_some) for subject in subjects]
    answers = [_answer(*side, showing) for side in zip(subjects, openings, strict=True)]
    document = diff_report(*_compared(subjects, answers, titles, showing), fail_on=showing.fail_on or ())
    document = with_warnings(document, tuple(_left_out(before, after)))
    _, opening = openings
    if opening is None or after.manifests is None or not any(row.now_pending > 0 for row in document.workloads):
        return document
    return _with_causes(document, opening, after, after.manifests, before)


def _with_causes(
    document: DiffReport, opening: Opening, question: Subject, manifests: Manifests, earlier: Subject
) -> DiffReport:
    """Return the differences with the parts of the change without which a workload would not wait.

    The question, whose task `opening` begins, is asked again without each of its manifests, or with the earlier one.
    """
    rows = {row.workload: row for row in document.workloads}
    waiting = {workload: row for workload, row in rows.items() if row.now_pending > 0}
    nodes = question.base.objects.node_by_name
    parts = {workload.key: workload.sample for workload in manifests.workloads}
    namespaces = {WorkloadRef.parse(workload).namespace for workload in waiting}
    blamed: dict[str, list[Blame]] = {}
    for part in [part for part in parts if waiting.keys() - {part}][:_MOST_PARTS]:
        left = [written for key, written in question.written if key != part]
        was = [written for key, written in earlier.written if key == part]
        change = opening.applying([*left, *was]).carry_out()
        ends = tallies_of(pods_at_rest(change.simulation, namespaces), change.workloads)
        for workload, row in waiting.items():
            side = ends[workload].side if workload in ends else None
            before = 0 if row.before is None else row.before.pending
            if workload != part and (side is None or side.pending - before < row.now_pending):
                there = side or row.before
                # The nodes that it has without the part, and not with it; else all of them.
                own = () if there is None else tuple(there.nodes)
                lost = [node for node in own if row.after is None or node not in row.after.nodes]
                blame = _blame(part, parts[part], rows.get(part), lost or own, nodes)
                blamed.setdefault(workload, []).append(blame)
    blamed_rows = (replace(row, because=tuple(blamed.get(workload, ()))) for workload, row in rows.items())
    return replace(document, workloads=tuple(blamed_rows))


def _blame(
    part: str, pod: Pod, row: WorkloadDifference | None, own_nodes: Iterable[str], nodes: Mapping[str, Node]
) -> Blame:
    new: dict[str, int] = {}  # the nodes with more of its pods than before, and how many more
    if row is not None and row.after is not None:
        before = {} if row.before is None else row.before.nodes
        new = {name: more for name, n in row.after.nodes.items() if (more := n - before.get(name, 0)) > 0}
    there = [name for name in own_nodes if new.get(name)]
    zone_of = {name: nodes[name].metadata.labels.get(ZONE, "") for name in (*own_nodes, *new) if name in nodes}
    if not there:
        zones = {zone_of.get(name, "") for name in own_nodes} - {""}
        there = [name for name in new if zone_of.get(name) in zones]
    zones = {zone_of.get(name, "") for name in there}
    zone = zones.pop() if len(zones) == 1 else ""
    number = sum(new[name] for name in there)
    requests = PodInfo(pod).requests
    took = {name: quantity_text(name, number * requests[name]) for name in resource_order(requests) if requests[name]}
    return Blame(workload=part, pods=number, nodes=tuple(there), zone=zone, took=took if number else {})


def without_manifests(subject: Subject) -> Subject:
    """Return a question that compares with manifests, and has none itself."""
    return replace(subject, manifests=subject.manifests or Manifests(()))


def without_deleted(subject: Subject, before: Subject, deleted: Container[str]) -> Subject:
    """Return the second question for a cluster without the workloads of files that only the first one has."""
    subject = without_manifests(subject)
    assert before.manifests is not None and subject.manifests is not None  # noqa: S101, PT018 - of a revision
    written = {workload.key for workload in subject.manifests.workloads}
    keys = dict.fromkeys(one.key for one in before.manifests.workloads if one.item.path in deleted)
    gone = [parse_reference(key) for key in keys if key not in written]
    there = [one for one in gone if one.is_in(subject.base.snapshot)]
    return replace(subject, base=changed(subject.base, [Delete(tuple(one.text for one in there))]))


def _left_out(before: Subject, after: Subject) -> Iterator[InputWarning]:
    if before.manifests is None or after.manifests is None:
        return
    written = {workload.key for workload in after.manifests.workloads}
    gone = dict.fromkeys(workload.key for workload in before.manifests.workloads if workload.key not in written)
    running = own_workloads(after.base) if gone else {}
    for key in gone:
        if number := running.get(key):
            pods = "its pod runs" if number == 1 else f"its {number} pods run"
            message = f"no manifest has it any more: {pods} on, unless the apply prunes (as Argo CD and Flux can)"
            yield InputWarning(NOT_IN_MANIFESTS, key, message)


def _compared(
    subjects: tuple[Subject, Subject],
    answers: Sequence[Plan | CarriedOut | Report],
    titles: tuple[str, str],
    showing: Showing,
) -> tuple[ComparedAnswer, ComparedAnswer]:
    """Return answers as they are compared: both cover, for each pod, the nodes that either chooses."""
    chosen: dict[str, set[str]] = {}
    for answer in answers:
        ends: list[tuple[str, str | None]] = []
        if isinstance(answer, Plan):
            ends = [(placement.pod.key, placement.node) for placement in answer.placements]
        elif isinstance(answer, CarriedOut):
            ends = [(pod.key, pod.node) for pod in answer.simulation.pods.values()]
        for name, node in ends:
            chosen.setdefault(name, set()).update((node,) if node else ())
    compared: list[ComparedAnswer] = []
    for subject, answer, title in zip(subjects, answers, titles, strict=True):
        names = frozenset(subject.base.objects.node_by_name)
        one = ComparedAnswer(title, _report_of(subject, answer, chosen, names, showing), names)
        if isinstance(answer, Plan):
            after = answer.session.cluster
            one = replace(one, usage_at_end=cluster_usage(after), room_at_end=largest(after))
        compared.append(replace(one, origins=subject.origins, requests=_requests_of(subject.manifests)))
    return compared[0], compared[1]


def _report_of(
    subject: Subject,
    answer: Plan | CarriedOut | Report,
    chosen: Mapping[str, set[str]],
    names: frozenset[str],
    showing: Showing,
) -> Report:
    """Return the report of an answer, of each pod with the nodes, of those with `names`, that either answer chooses."""
    if isinstance(answer, Report):
        return answer
    shown = {pod: Shown(1, also=tuple(sorted(nodes & names))) for pod, nodes in chosen.items()}
    if isinstance(answer, Plan):
        nodes_of = {index: shown[placement.pod.key] for index, placement in enumerate(answer.placements)}
        return answer.report(fail_on=(), nodes_of=nodes_of, with_map=showing.with_map)
    whole = replace(showing, fail_on=(), nodes=Shown(1), others=Shown(1), explain=True, is_whole=True)
    decisions = Decisions(whole, nodes_of=shown)
    return change_report(carry_out(subject.base, Task(queue=WorkedOff()), decisions), decisions)


def _requests_of(manifests: Manifests | None) -> dict[str, int] | None:
    """Return what the pods of manifests request together, in the scheduler's units; None without manifests."""
    if manifests is None:
        return None
    number: Counter[int] = Counter()
    for pod in manifests.pods:
        number[id(pod.workload)] += 1 + pod.more
    total: Counter[str] = Counter()
    for workload in manifests.workloads:
        n_pods = number[id(workload)]
        total[PODS] += n_pods
        for name, amount in PodInfo(workload.created).resources.requests.items() if n_pods else ():
            total[name] += amount * n_pods
    return dict(total)


def _opening(subject: Subject, *, has_updates: bool) -> Opening | None:
    """Return what begins the task of a question about manifests; None without any.

    Where one of the two questions changes workloads of the cluster, the scheduler has tried all pending pods before.
    """
    if subject.manifests is None:
        return None
    named = tuple(pod for pod in subject.pods if not isinstance(pod, IncomingPod))
    return Opening(*subject.task(Task(queue=None if has_updates else WorkedOff(named, with_pending=True))))


def _answer(subject: Subject, opening: Opening | None, showing: Showing) -> Plan | CarriedOut | Report:
    """Answer as `kplan plan` does; pods that are named alone are placed, as `kplan place` does."""
    if opening is None:
        if subject.names_pods:
            return place_in_order(subject.base, subject.pods)
        return carry_out(subject.base, Task(queue=WorkedOff()))
    decisions = Decisions(replace(showing, fail_on=()), subject.origins)
    change = opening.carry_out(None if showing.nodes is UNSET else decisions)
    return change_report(change, decisions)
