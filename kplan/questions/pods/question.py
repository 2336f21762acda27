"""The question which pods manifests would create."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kplan.errors import UsageError
from kplan.questions.base import AskAll, Manifest, Question

if TYPE_CHECKING:
    from kplan.documents.base import Condition
    from kplan.documents.pods import PodsReport
    from kplan.planner.planner import Planner


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
    replicas: int | None = None

    def answer(
        self, planner: Planner, *, fail_on: Sequence[Condition] | None = None, ask_all: AskAll | None = None
    ) -> PodsReport:
        """Return the PodsReport."""
        from kplan.questions.pods.created import pods_report, stored_pods
        from kplan.workloads.manifests import load_manifests

        if not self.manifests:
            raise UsageError("no manifest given", hint="name manifests")
        minor = planner.release.number
        loaded = load_manifests(
            self.manifests,
            snapshot=planner.world,
            namespace=self.namespace or None,
            replicas=self.replicas,
            minor=minor,
        )
        stored = stored_pods(loaded, planner.world, refuse_objects=False, minor=minor)
        return pods_report(stored, loaded, planner.snapshot.source)
