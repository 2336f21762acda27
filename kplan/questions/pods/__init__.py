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
        from kplan.workloads.manifests import load_manifests

        if not self.manifests:
            raise UsageError("no manifest given", hint="name manifests")
        base = subject.base
        minor = base.release.number
        loaded = load_manifests(
            self.manifests, snapshot=base.objects, namespace=self.namespace, replicas=self.replicas, minor=minor
        )
        return pods_report(loaded, base.objects, minor=minor)
