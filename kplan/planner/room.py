"""Questions about room: how many replicas fit, and how many more of each workload.

What one question needs alone is imported when it is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from kplan.planner.base import Base

if TYPE_CHECKING:
    from kplan.documents.headroom import HeadroomReport
    from kplan.planner.capacity import Template
    from kplan.planner.capacity_plan import Capacity
    from kplan.planner.headroom import AskAll
    from kplan.workloads.sources import Source


class RoomQuestions(Base):
    """The part of a planner that counts replicas."""

    def capacity(
        self,
        templates: Sequence[Template],
        *,
        wanted: int | None = None,
        limit: int | None = None,
        preempt: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> Capacity:
        """Count how many replicas of pods fit, taking templates in turn.

        Parameters
        ----------
        wanted : how many should fit; when fewer do, the answer says what to add
        limit : stop counting after so many
        preempt : count room that pods of lower priority would give up
        progress : told now and then how many fit so far
        """
        from kplan.planner.capacity_plan import measure

        return measure(self, templates, wanted=wanted, limit=limit, preempt=preempt, progress=progress)

    def headroom(
        self,
        manifests: Sequence[Source] | None = None,
        *,
        namespace: str | None = None,
        wanted: int | None = None,
        limit: int | None = None,
        ask_all: AskAll | None = None,
    ) -> HeadroomReport:
        """Count how many more replicas of each workload fit, each alone, from the same start.

        Parameters
        ----------
        manifests : files, directories, ``-``, or objects; None for every workload of the snapshot
        namespace : for objects that name none
        wanted : so many more of each should fit; the verdict says whether they do
        limit : each count stops here; without it at `wanted`, or at 1,000
        ask_all : has the questions answered, in order; None asks one after the other

        Raises
        ------
        ManifestError
            With everything that is wrong with the manifests.
        UsageError
            When there is nothing to ask about.
        """
        from kplan.planner.headroom import base_of_manifests, headroom_report

        if manifests is None:
            return headroom_report(self, wanted=wanted, limit=limit, ask_all=ask_all)
        from kplan.workloads.manifests import load_manifests

        alone = replace(self.snapshot, pods=())
        found = load_manifests(manifests, snapshot=alone, namespace=namespace, replicas=1)
        base, templates = base_of_manifests(self, found, wanted=wanted, limit=limit)
        return headroom_report(base, templates, wanted=wanted, limit=limit, ask_all=ask_all)
