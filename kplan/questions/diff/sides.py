"""Two answers to one question, about two clusters or two sets of manifests, and why they differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

from msgspec.structs import replace

from kplan.answers.plan import Plan
from kplan.answers.utilisation import cluster_usage, largest
from kplan.capacity.own_workloads import own_workloads
from kplan.cluster.in_order import place_in_order
from kplan.cluster.showing import Showing
from kplan.diagnosis.explanation import Shown
from kplan.documents.base import InputWarning, Report
from kplan.documents.diff import DiffReport
from kplan.effects.missing import with_missing
from kplan.effects.queue_course import WorkedOff
from kplan.effects.queue_plan import QueuePlan, work_off
from kplan.effects.subject import Subject
from kplan.effects.updating import has_updates
from kplan.questions.diff.blame import pods_without, waiting_rows, with_causes, without_workload
from kplan.questions.diff.costs import ComparedAnswer, requests_of
from kplan.questions.diff.document import diff_report
from kplan.questions.updates import change_of

NOT_IN_MANIFESTS = "NotInManifests"


def compare(subjects: tuple[Subject, Subject], titles: tuple[str, str], showing: Showing) -> DiffReport:
    """Return the differences, with the manifests that cause that workloads wait.

    Parameters
    ----------
    subjects : before and after
    titles : their names in the report
    """
    before, after = subjects
    # It stays the same whatever is taken away from the other side.
    answer_before = cache(lambda is_change: _answer(before, showing, is_change=is_change))
    document = diff_report(*_answers(subjects, titles, showing, answer_before), fail_on=showing.fail_on or ())
    document = with_missing(document, tuple(_left_out(before, after)))
    manifests = after.manifests
    if manifests is None or not waiting_rows(document):
        return document

    def ask_without(part: str) -> DiffReport:
        left = without_workload(manifests, part, before.manifests)
        fewer = replace(after, pods=pods_without(after.pods, part), manifests=left)
        return diff_report(*_answers((before, fewer), titles, showing, answer_before))

    parts = {workload.key: workload.sample for workload in manifests.workloads}
    return with_causes(document, parts, ask_without, after.base.objects.node_by_name)


def _left_out(before: Subject, after: Subject) -> Iterator[InputWarning]:
    """Yield a warning for each workload of the cluster that only the manifests of before have."""
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


def _answers(
    subjects: tuple[Subject, Subject],
    titles: tuple[str, str],
    showing: Showing,
    answer_before: Callable[[bool], Plan | QueuePlan | Report],
) -> tuple[ComparedAnswer, ComparedAnswer]:
    """Answer both questions; both answers cover, for each pod, the nodes that either chooses."""
    # Both sides run the same course: what only one of them set in motion would look like a difference.
    is_change = any(
        subject.manifests is not None and has_updates(subject.manifests, subject.base.snapshot) for subject in subjects
    )
    answers = (answer_before(is_change), _answer(subjects[1], showing, is_change=is_change))
    chosen: dict[str, set[str]] = {}
    for answer in answers:
        if not isinstance(answer, Report):
            for placement in answer.placements:
                chosen.setdefault(placement.pod.key, set()).update(() if placement.node is None else (placement.node,))
    compared: list[ComparedAnswer] = []
    for subject, answer, title in zip(subjects, answers, titles, strict=True):
        names = frozenset(subject.base.objects.node_by_name)
        origins, requests = subject.origins, requests_of(subject.manifests)
        if isinstance(answer, Report):
            compared.append(ComparedAnswer(title, answer, names, origins=origins, requests=requests))
            continue
        nodes_of = {
            index: Shown(1, also=tuple(sorted(chosen[placement.pod.key] & names)))
            for index, placement in enumerate(answer.placements)
        }
        report: Report = answer.report(fail_on=(), nodes_of=nodes_of, with_map=showing.with_map)
        after = answer.session.cluster if isinstance(answer, Plan) else answer.after
        compared.append(ComparedAnswer(title, report, names, cluster_usage(after), origins, requests, largest(after)))
    return compared[0], compared[1]


def _answer(subject: Subject, showing: Showing, *, is_change: bool) -> Plan | QueuePlan | Report:
    """Place the pods, as `kplan place` does, or without any all pending pods, as `kplan plan` does."""
    if is_change:
        change = change_of(subject, "auto", "plan", replace(showing, fail_on=()), queue=WorkedOff(), tells_luck=False)
        if change is not None:
            return change
    if subject.manifests is None and not subject.names_pods:
        return work_off(subject.base, WorkedOff())
    return place_in_order(subject.base, subject.pods)
