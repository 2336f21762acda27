"""The questions about room: how many replicas fit, and which nodes to add or remove."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from kplan.api.quantity import MAX_INT64, natural
from kplan.changes.values import DrainOptions
from kplan.course.asking import PLAIN, Showing
from kplan.course.beginning import unmoved
from kplan.errors import ParameterError, UsageError
from kplan.questions.base import Question
from kplan.reading.arguments import FilePath, Manifest, Number, Option, Positive

if TYPE_CHECKING:
    from kplan.cluster.base import Base
    from kplan.course.subject import Subject
    from kplan.documents.capacity import CapacityReport, HeadroomReport, ShrinkReport


class AboutWorkloads(Question, frozen=True):
    """A question about replicas of workloads.

    Attributes
    ----------
    manifests : files, directories or objects
    namespace : for objects that name none
    workloads : workloads of the cluster, as KIND/NAMESPACE/NAME, or with a short kind, such as ``deploy/shop/cart``
    """

    manifests: tuple[Manifest, ...] = ()
    namespace: str = ""
    workloads: tuple[str, ...] = ()

    keeps_groups: ClassVar[bool] = False  #: all pods are read of workloads whose pods belong to pod groups

    def subject(self, base: Base) -> Subject:
        """Return the manifests with one replica of each workload."""
        from kplan.capacity.measure import single_replicas
        from kplan.course.subject import Subject

        if not self.manifests:
            return Subject(base)
        read = single_replicas(base, self.manifests, self.namespace, keeps_groups=self.keeps_groups)
        return Subject(base, manifests=read)

    def _named(self, base: Base) -> list[str]:
        """Return the workloads as KIND/NAMESPACE/NAME; raises UsageError or NotFoundError for what is none."""
        from kplan.cluster.workload_pods import scalable_workloads
        from kplan.course.simulation.owners import DaemonSetState

        keys: list[str] = []
        for text in self.workloads:
            state = unmoved(base).workloads.find(text)
            is_whole = state is not None and not isinstance(state, DaemonSetState)
            keys += [text] if is_whole else scalable_workloads([text], self.namespace, base.objects)
        return keys


def _shares(text: str) -> tuple[int, ...]:
    shares = [natural(part, MAX_INT64) for part in text.split(":")]
    if not all(shares):
        raise UsageError(f"--mix {text}: expected numbers from 1 up with colons between", hint="for example --mix 3:1")
    return tuple(filter(None, shares))


class Counting(AboutWorkloads, frozen=True):
    """A question how many replicas fit.

    Attributes
    ----------
    replicas : how many should fit
    mix : ratio in which several workloads are counted (default 1:1)
    """

    keeps_groups: ClassVar[bool] = True

    replicas: Number | None = None
    mix: Annotated[tuple[Positive, ...], Option("N:M...", read=_shares, more=True)] = ()

    def _count(self, subject: Subject, showing: Showing, limit: int | None = None, **how: Any) -> CapacityReport:
        """Return the CapacityReport; `limit` and `how` as for `measure`."""
        from kplan.capacity.measure import measure, with_templates

        if subject.manifests is None and not self.workloads:
            raise UsageError("nothing to count", hint="name manifests")
        base, templates = with_templates(
            subject.base, subject.manifests, self._named(subject.base), mix=self.mix, wanted=self.replicas, limit=limit
        )
        if len(self.mix) == len(templates) == 1:
            showing.tell_no_effect("mix", "a mix needs a number for each workload")
        progress = showing.progress
        counted = None if progress is None else lambda n: progress(n, None)
        capacity = measure(base, templates, wanted=self.replicas, limit=limit, progress=counted, **how)
        before = base.session.cluster if showing.with_map else None
        return capacity.report(fail_on=showing.fail_on, nodes=showing.explained, before=before)


class Capacity(Counting, frozen=True):
    """Asks how many replicas fit, where, and what stops the next one.

    Attributes
    ----------
    manifests : files, directories or objects
    namespace : for objects that name none
    workloads : workloads of the cluster, as KIND/NAMESPACE/NAME
    replicas : how many should fit; if fewer do, the answer names nodes to add
    limit : stop counting at N replicas
    preempt : also count room that preemption would make
    """

    limit: Annotated[Positive | None, Option("--max N", more=True)] = None
    preempt: Annotated[bool, Option()] = False

    def check(self) -> None:
        if self.limit is not None and self.replicas is not None and self.limit < self.replicas:
            hint = f"leave out {{limit}}: {{replicas}} {self.replicas} stops the count by itself"
            raise ParameterError(f"{{limit}} {self.limit} is below {{replicas}} {self.replicas}", hint=hint)

    def answer_about(self, subject: Subject, showing: Showing = PLAIN) -> CapacityReport:
        self.check()
        return self._count(subject, showing, self.limit, preempt=self.preempt)


class Shapes(Counting, frozen=True, kw_only=True):
    """Asks which nodes are the cheapest to add, so that so many replicas fit.

    Attributes
    ----------
    manifests, namespace, workloads, mix : as for Capacity
    replicas : how many should fit
    shapes : a file that lists shapes of nodes with prices
    """

    replicas: Number
    shapes: FilePath

    def answer_about(self, subject: Subject, showing: Showing = PLAIN) -> CapacityReport:
        document = self._count(subject, showing, shapes=self.shapes)
        if document.stop and not document.offers:
            showing.tell_no_effect("shapes", "more nodes would not help with what stops the next replica")
        return document


class Headroom(AboutWorkloads, frozen=True):
    """Asks how many more replicas of each workload fit, each alone.

    Attributes
    ----------
    manifests : files, directories or objects; if empty, workloads of the cluster
    namespace : for objects that name none
    workloads : workloads of the cluster, as KIND/NAMESPACE/NAME; if empty, all of them
    replicas : how many more of each should fit
    limit : each count stops here
    selector : workloads of the cluster whose pods have these labels, as in ``kubectl -l``
    """

    replicas: Number | None = None
    limit: Positive | None = None
    selector: str = ""

    def answer_about(self, subject: Subject, showing: Showing = PLAIN) -> HeadroomReport:
        from kplan.capacity.headroom import base_of_manifests, headroom_report

        base, templates = subject.base, None
        if subject.manifests is not None:
            base, templates = base_of_manifests(base, subject.manifests, wanted=self.replicas, limit=self.limit)
        among, namespace = self._named(subject.base) or self._selected(base), "" if self.selector else self.namespace
        wanted, limit = self.replicas, self.limit
        return headroom_report(base, templates, showing, among=among, namespace=namespace, wanted=wanted, limit=limit)

    def _selected(self, base: Base) -> list[str]:
        """Return the workloads that the selector matches; raises UsageError where it matches none."""
        if not self.selector:
            return []
        from kplan.capacity.templates import with_labels

        keys = with_labels(base, self.selector, self.namespace)
        if not keys:
            raise UsageError(f"no workload has pods with labels {self.selector}", hint="kubectl get pods --show-labels")
        return keys


class Shrink(Question, frozen=True):
    """Asks which nodes are not needed.

    Attributes
    ----------
    options : the flags of ``kubectl drain``
    """

    options: DrainOptions = DrainOptions()

    def answer_about(self, subject: Subject, showing: Showing = PLAIN) -> ShrinkReport:
        from kplan.capacity.shrink import shrink_report

        return shrink_report(subject.base, options=self.options, fail_on=showing.fail_on, progress=showing.progress)
