"""The question which pods manifests would create."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kplan.course.asking import PLAIN, Showing
from kplan.errors import UsageError
from kplan.questions.base import Question
from kplan.reading.arguments import Manifest, Number

if TYPE_CHECKING:
    from kplan.course.subject import Subject
    from kplan.documents.files import PodsReport


class Pods(Question, frozen=True):
    """Asks which pods these manifests would create, as the API server would store them.

    Attributes
    ----------
    manifests : files, directories or objects
    namespace : for objects that name none
    replicas : the number of pods of each workload, in place of its own
    """

    manifests: tuple[Manifest, ...]
    namespace: str = ""
    replicas: Number | None = None

    def answer_about(self, subject: Subject, showing: Showing = PLAIN) -> PodsReport:
        from kplan.questions.pods.created import pods_report
        from kplan.workloads.manifests import ReadOptions, load_manifests

        if not self.manifests:
            raise UsageError("no manifest given", hint="name manifests")
        snapshot, minor = subject.base.objects, subject.base.release.number
        options = ReadOptions(snapshot=snapshot, minor=minor, namespace=self.namespace, replicas=self.replicas)
        return pods_report(load_manifests(self.manifests, options), snapshot, minor=minor)
