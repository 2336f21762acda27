"""Questions about capacity: how many replicas fit, how many more of each workload, and which nodes are not needed.

Modules that only one question needs are imported when it is called.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kplan.cluster.base import Base
from kplan.planner.odds_questions import BoundAskAll, for_any_base
from kplan.simulation.draining import DrainOptions

if TYPE_CHECKING:
    from kplan.capacity.counting import Template
    from kplan.capacity.measure import Capacity
    from kplan.documents.headroom import HeadroomReport
    from kplan.documents.nodes import NodesReport
    from kplan.documents.shrink import ShrinkReport
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
        """Count how many replicas of pods fit, placing replicas of the templates in turn.

        Parameters
        ----------
        templates : pod templates; or manifests with workloads: files, directories, ``-``, or objects
        mix : the number of replicas in a row of each workload of the manifests; one of each if empty
        wanted : how many should fit, in total; if fewer do, the answer names nodes to add
        limit : stop counting at this number
        preempt : also count room that pods of lower priority use
        lose : count replicas that can all be rescheduled if any such number of nodes is lost
        zones : lose zones in place of nodes; one zone if `lose` is None
        shapes : a file that lists shapes of nodes with prices; if fewer than `wanted` fit, the cheapest mix is added
        namespace : for objects that name none
        progress : called now and then with the number of replicas so far

        Raises
        ------
        ManifestError, InputError
            With all problems of the manifests, or of the list of shapes.
        UsageError
            When there is nothing to count, or there are too many combinations of lost nodes.
        """
        from kplan.capacity.fitting import capacity_of

        return capacity_of(
            self,
            templates,
            mix=mix,
            wanted=wanted,
            limit=limit,
            preempt=preempt,
            lose=lose,
            zones=zones,
            shapes=shapes,
            namespace=namespace,
            progress=progress,
        )

    def headroom(
        self,
        manifests: Sequence[Source] | None = None,
        *,
        namespace: str | None = None,
        wanted: int | None = None,
        limit: int | None = None,
        ask_all: BoundAskAll | None = None,
    ) -> HeadroomReport:
        """Count how many more replicas of each workload fit, each on its own and from the same start.

        Parameters
        ----------
        manifests : files, directories, ``-``, or objects; None for every workload of the snapshot
        namespace : for objects that name none
        wanted : how many more of each should fit; the verdict fails if fewer do
        limit : each count stops here; None for `wanted`, else for 1,000
        ask_all : answers the questions, in order; None answers one after the other

        Raises
        ------
        ManifestError
            With all problems of the manifests.
        UsageError
            When there is no workload.
        """
        from kplan.capacity.fitting import single_replicas
        from kplan.capacity.headroom import base_of_manifests, headroom_report

        if manifests is None:
            return headroom_report(self, wanted=wanted, limit=limit, ask_all=for_any_base(self, ask_all))
        loaded = single_replicas(self, manifests, namespace)
        base, templates = base_of_manifests(self, loaded, wanted=wanted, limit=limit)
        return headroom_report(base, templates, wanted=wanted, limit=limit, ask_all=for_any_base(self, ask_all))

    def shrink(self, *, options: DrainOptions | None = None) -> ShrinkReport:
        """Return nodes that can be drained one after another so that every pod is placed and every budget holds.

        The search is greedy, the emptiest node first; another order might free more.

        Parameters
        ----------
        options : pods that are deleted in any case; None for none
        """
        from kplan.questions.capacity.question import Shrink

        question = Shrink(options=options or DrainOptions())
        return question.answer_about(question.subject(self))

    def nodes(self, *, full: bool = False, loops: Sequence[float] | None = (0,)) -> NodesReport:
        """Return which nodes the planner's autoscaler adds for the pending pods, removes and keeps.

        Parameters
        ----------
        full : include the whole decision in the autoscaler's own terms
        loops : seconds after the planner's `now` at which the cluster-autoscaler looks, in ascending order; None for
            as long as it waits before it removes a node

        Raises
        ------
        UsageError
            When the planner follows no autoscaler, or its settings cannot be used.
        InputError
            With all problems of the file that the settings name.
        """
        from kplan.questions.nodes.question import Nodes

        question = Nodes(full=full, loops=None if loops is None else tuple(loops))
        return question.answer_about(question.subject(self))
