"""Questions about room: how many replicas fit, how many more of each workload, and which nodes are not needed.

What one question needs alone is imported when it is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from kplan.errors import UsageError
from kplan.planner.base import Base

if TYPE_CHECKING:
    from kplan.documents.headroom import HeadroomReport
    from kplan.documents.shrink import ShrinkReport
    from kplan.planner.capacity import Template
    from kplan.planner.capacity_plan import Capacity
    from kplan.planner.headroom import AskAll
    from kplan.planner.shape_list import PricedShape
    from kplan.simulation.draining import DrainOptions
    from kplan.workloads.manifests import Manifests
    from kplan.workloads.sources import Source


class RoomQuestions(Base):
    """The part of a planner that counts replicas and nodes."""

    def capacity(
        self,
        templates: Sequence[Template | Source],
        *,
        mix: Sequence[int] = (),
        wanted: int | None = None,
        limit: int | None = None,
        preempt: bool = False,
        lose: int | None = None,
        zones: bool = False,
        shapes: str | Path | None = None,
        namespace: str | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Capacity:
        """Count how many replicas of pods fit, taking templates in turn.

        Parameters
        ----------
        templates : of pods; or manifests: files, directories, ``-``, or objects, one workload each or more
        mix : of the workloads of manifests so many in a row; one of each when empty
        wanted : how many should fit, all together; when fewer do, the answer says what to add
        limit : stop counting after so many
        preempt : count room that pods of lower priority would give up
        lose : so many fit that any such number of nodes may be lost, and each replica still finds a place
        zones : of zones; one, where `lose` says nothing
        shapes : a file that lists shapes of nodes with prices, of which the cheapest mix is sought when fewer fit
        namespace : for objects that name none
        progress : told now and then how many fit so far

        Raises
        ------
        ManifestError, InputError
            With everything that is wrong with the manifests, or with the list of shapes.
        UsageError
            When there is nothing to count, or there are more ways to lose nodes than are tried.
        """
        from kplan.planner.capacity import Template
        from kplan.planner.capacity_plan import measure, measure_outlasting
        from kplan.planner.shape_list import read_shapes

        ready = [template for template in templates if isinstance(template, Template)]
        sources = [template for template in templates if not isinstance(template, Template)]
        base: Base = self
        if sources:
            base, ready = self._with_manifests(sources, mix, namespace, wanted=wanted, limit=limit)
        listed: Sequence[PricedShape] = ()
        if shapes is not None:
            if wanted is None or preempt or lose is not None or zones:
                hint = "say how many are wanted, and leave out preempt, lose and zones"
                raise UsageError("shapes are for a number of replicas that is wanted", hint=hint)
            listed = read_shapes(shapes, base.world.node_by_name)
        if lose is None and not zones:
            return measure(base, ready, wanted=wanted, limit=limit, preempt=preempt, shapes=listed, progress=progress)
        if preempt:
            raise UsageError("nobody is evicted where nodes are lost", hint="ask without preempt, or without lose")
        return measure_outlasting(
            base, ready, lose=lose or 1, zones=zones, wanted=wanted, limit=limit, progress=progress
        )

    def _with_manifests(
        self,
        sources: Sequence[Source],
        mix: Sequence[int],
        namespace: str | None,
        *,
        wanted: int | None,
        limit: int | None,
    ) -> tuple[Self, list[Template]]:
        """Return a planner whose cluster holds what comes with manifests, and their workloads."""
        from kplan.planner.templates import templates_of

        asked = templates_of(
            self._one_of_each(sources, namespace),
            self.snapshot,
            shares=mix,
            wanted=wanted,
            limit=limit,
            minor=self.release.number,
        )
        return self.with_world(self.snapshot, asked.objects, asked.warnings), list(asked.templates)

    def _one_of_each(self, sources: Sequence[Source], namespace: str | None) -> Manifests:
        """Read manifests: one replica of each workload, numbered as if nothing of the name ran."""
        from kplan.workloads.manifests import load_manifests

        alone = replace(self.snapshot, pods=())
        return load_manifests(sources, snapshot=alone, namespace=namespace, replicas=1, minor=self.release.number)

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
        found = self._one_of_each(manifests, namespace)
        base, templates = base_of_manifests(self, found, wanted=wanted, limit=limit)
        return headroom_report(base, templates, wanted=wanted, limit=limit, ask_all=ask_all)

    def shrink(self, *, options: DrainOptions | None = None) -> ShrinkReport:
        """Look for nodes that can be drained one after another, every pod placed and every budget kept.

        Found greedily, the emptiest node first; another order might free more.

        Parameters
        ----------
        options : which pods go in any case; None for none
        """
        from kplan.planner.shrink import shrink_report

        return shrink_report(self, options=options)
