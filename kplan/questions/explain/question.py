"""The question why pods are where they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kplan.errors import UsageError
from kplan.questions.base import PLAIN, Question, Showing

if TYPE_CHECKING:
    from kplan.cluster.base import Base
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

    def answer(self, base: Base, showing: Showing = PLAIN) -> PlacementReport:
        """Return the PlacementReport."""
        from kplan.questions.explain.document import explain_pod, refuse_many, whereabouts_report
        from kplan.subjects.names import pods_named

        keys = pods_named(self.names, self.namespace, base.world)
        if not keys:
            raise UsageError("nothing to explain", hint="name a pod as NAMESPACE/NAME or a workload")
        refuse_many(keys, base.world.nodes)
        return whereabouts_report([explain_pod(base, key) for key in keys], fail_on=showing.fail_on)
