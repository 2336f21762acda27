"""The questions about room: how many replicas fit, and which nodes to add or remove."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from kplan.errors import UsageError
from kplan.questions.base import PLAIN, Manifest, Question, Showing
from kplan.simulation.draining import DrainOptions

if TYPE_CHECKING:
    from kplan.cluster.base import Base
    from kplan.documents.capacity import CapacityReport
    from kplan.documents.headroom import HeadroomReport
    from kplan.documents.shrink import ShrinkReport


def _check(manifests: Sequence[Manifest]) -> None:
    if not manifests:
        raise UsageError("nothing to count", hint="name manifests")


class Capacity(Question, frozen=True):
    """Asks how many replicas fit, where, and what stops the next one.

    Attributes
    ----------
    manifests : files, directories or objects
    namespace : for objects that name none
    replicas : how many should fit; if fewer do, the answer names nodes to add
    limit : stop counting at this number
    mix : the number of replicas in a row of each workload; one of each if empty
    preempt : also count room that pods of lower priority use
    lose : count replicas that all find a place again when any so many of ``of`` are lost
    of : what is lost
    """

    manifests: tuple[Manifest, ...]
    namespace: str = ""
    replicas: int | None = None
    limit: int | None = None
    mix: tuple[int, ...] = ()
    preempt: bool = False
    lose: int = 0
    of: Literal["nodes", "zones"] = "nodes"

    def answer(self, base: Base, showing: Showing = PLAIN) -> CapacityReport:
        """Return the CapacityReport."""
        from kplan.capacity.fitting import capacity_of

        _check(self.manifests)
        capacity = capacity_of(
            base,
            self.manifests,
            mix=self.mix,
            wanted=self.replicas,
            limit=self.limit,
            preempt=self.preempt,
            lose=self.lose or None,
            zones=bool(self.lose) and self.of == "zones",
            namespace=self.namespace or None,
        )
        return capacity.report(fail_on=showing.fail_on)


class Shapes(Question, frozen=True):
    """Asks which nodes are the cheapest to add, so that so many replicas fit.

    Attributes
    ----------
    manifests, namespace, mix : as for Capacity
    replicas : how many should fit
    shapes : a file that lists shapes of nodes with prices
    """

    manifests: tuple[Manifest, ...]
    replicas: int
    shapes: str
    namespace: str = ""
    mix: tuple[int, ...] = ()

    def answer(self, base: Base, showing: Showing = PLAIN) -> CapacityReport:
        """Return the CapacityReport."""
        from kplan.capacity.fitting import capacity_of

        _check(self.manifests)
        capacity = capacity_of(
            base,
            self.manifests,
            mix=self.mix,
            wanted=self.replicas,
            shapes=self.shapes,
            namespace=self.namespace or None,
        )
        return capacity.report(fail_on=showing.fail_on)


class Headroom(Question, frozen=True):
    """Asks how many more replicas of each workload fit, each alone.

    Attributes
    ----------
    manifests : files, directories or objects; if empty, every workload of the cluster
    namespace : for objects that name none
    replicas : how many more of each should fit
    limit : each count stops here
    selector : workloads of the cluster whose pods have these labels, as in ``kubectl -l``
    """

    manifests: tuple[Manifest, ...] = ()
    namespace: str = ""
    replicas: int | None = None
    limit: int | None = None
    selector: str = ""

    def answer(self, base: Base, showing: Showing = PLAIN) -> HeadroomReport:
        """Return the HeadroomReport."""
        from kplan.capacity.fitting import single_replicas
        from kplan.capacity.headroom import base_of_manifests, headroom_report

        if not self.manifests:
            return headroom_report(
                base,
                among=self._selected(base),
                namespace="" if self.selector else self.namespace,
                wanted=self.replicas,
                limit=self.limit,
                fail_on=showing.fail_on,
                ask_all=showing.ask_all,
            )
        loaded = single_replicas(base, self.manifests, self.namespace or None)
        base, templates = base_of_manifests(base, loaded, wanted=self.replicas, limit=self.limit)
        return headroom_report(
            base, templates, wanted=self.replicas, limit=self.limit, fail_on=showing.fail_on, ask_all=showing.ask_all
        )

    def _selected(self, base: Base) -> list[str]:
        """Return the workloads that the selector matches; raises UsageError where it matches none."""
        if not self.selector:
            return []
        from kplan.capacity.own_workloads import with_labels

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

    def answer(self, base: Base, showing: Showing = PLAIN) -> ShrinkReport:
        """Return the ShrinkReport."""
        from kplan.capacity.shrink import shrink_report

        return shrink_report(base, options=self.options, fail_on=showing.fail_on)
