"""The question why pods are where they are."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kplan.course.asking import PLAIN, Showing, answers
from kplan.errors import UsageError
from kplan.questions.base import Question

if TYPE_CHECKING:
    from kplan.course.subject import Subject
    from kplan.documents.placement import PlacementReport


class Explain(Question, frozen=True):
    """Asks why each of these pods is where it is, or pending.

    Attributes
    ----------
    names : NAMESPACE/POD, or a workload as KIND/NAMESPACE/NAME or KIND/NAME
    namespace : for those that name none
    """

    names: tuple[str, ...]
    namespace: str = ""

    def answer_about(self, subject: Subject, showing: Showing = PLAIN) -> PlacementReport:
        from kplan.cluster.workload_pods import pods_named, workloads_named
        from kplan.course.missing import piled_up, short_workloads, with_missing, workloads_at_present
        from kplan.questions.explain.document import explain_pod, refuse_many, whereabouts_report

        base = subject.base
        if not self.names:
            raise UsageError("nothing to explain", hint="name a pod as NAMESPACE/NAME or a workload")
        present = workloads_at_present(base, workloads_named(self.names, self.namespace, base.objects))
        missing = short_workloads(present)
        keys = pods_named(self.names, self.namespace, base.objects, may_have_none=True)
        refuse_many(keys, base.objects.nodes)
        explaining = [partial(explain_pod, key=key) for key in keys]
        explained = answers(base, explaining, None, progress=showing.progress)
        report = whereabouts_report(base, explained, showing, workloads=present)
        return with_missing(report, [*missing, *piled_up(base.objects, keys)])
