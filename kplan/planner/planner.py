"""The planner: asks a snapshot's cluster where pods would go.

What one question needs alone is imported when it is asked, so that the plain ones are answered at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from kplan.errors import NotFoundError
from kplan.planner.base import PodLike
from kplan.planner.limits import DEFAULT_MAX_ROUNDS
from kplan.planner.not_found import no_node
from kplan.planner.odds_questions import OddsQuestions
from kplan.planner.placement import Placement
from kplan.planner.plan import Plan
from kplan.planner.room import RoomQuestions
from kplan.planner.sequence import run_in_order

if TYPE_CHECKING:
    from kplan.documents.drains import DrainsReport
    from kplan.planner.change import ChangePlan
    from kplan.planner.on_paper import WhatIf
    from kplan.planner.pods import StoredPod
    from kplan.planner.queue_plan import QueuePlan
    from kplan.simulation.applying import Rollout
    from kplan.simulation.draining import DrainOptions
    from kplan.workloads.changes import Manifest
    from kplan.workloads.manifests import Strictness
    from kplan.workloads.sources import Source


class Planner(RoomQuestions, OddsQuestions):
    """Answers questions about a snapshot under a scheduler configuration; parameters as for `Base`.

    No answer depends on what was asked before.
    """

    def place(self, pod: PodLike) -> Placement:
        """Say where one pod would go, changing nothing.

        Parameters
        ----------
        pod : NAMESPACE/NAME of a pending pod of the snapshot, a pod object, or one that came out of manifests

        Raises
        ------
        NotFoundError
            When the snapshot has no such pod.
        UsageError
            When the pod already runs.
        """
        return self.plan([pod]).placements[0]

    def pods(
        self, manifests: Sequence[Source], *, namespace: str | None = None, validate: Strictness = "strict"
    ) -> list[StoredPod]:
        """Say which pods manifests make, as the API server would store them, or why it refuses them.

        Parameters
        ----------
        manifests : files, directories, ``-``, or objects
        namespace : for objects that name none
        validate : what becomes of unknown and duplicate fields: refused, told, or passed over

        Returns
        -------
        pods : in reading order; those of an object that are alike but for their names stand as one

        Raises
        ------
        ManifestError
            With every object that the API server would not take, pods that are forbidden aside.
        """
        from kplan.planner.pods import stored_pods
        from kplan.workloads.manifests import load_manifests

        minor = self.release.number
        found = load_manifests(manifests, snapshot=self.world, namespace=namespace, validate=validate, minor=minor)
        return list(stored_pods(found, self.world, minor=minor).pods)

    def plan(self, pods: Iterable[PodLike], *, settle_preemption: bool = False) -> Plan:
        """Place pods in the order given on a private copy of the cluster.

        Parameters
        ----------
        settle_preemption : let preemption take place, and try its pod again right after

        Raises
        ------
        NotFoundError, UsageError
            As for `place`.
        """
        asked = self.resolve(pods)
        return self.decide(
            asked, lambda session: run_in_order(session, asked.rows, settle_preemption=settle_preemption)
        )

    def plan_queue(
        self,
        pods: Iterable[PodLike] | None = None,
        *,
        with_pending: bool = False,
        recreate: bool = True,
        max_rounds: int = DEFAULT_MAX_ROUNDS,
    ) -> QueuePlan:
        """Work off the scheduling queue to the end, preemption included, on a private copy of the cluster.

        Parameters
        ----------
        pods : None for every pending pod of the snapshot
        with_pending : every pending pod of the snapshot besides
        recreate : evicted pods that have a controller are queued again
        max_rounds : after so many rounds over what is left it ends in any case

        Raises
        ------
        NotFoundError, UsageError
            As for `place`.
        """
        from kplan.planner.queue_plan import plan_queue

        asked = self.queue_of(pods, with_pending=with_pending)
        return plan_queue(self, asked, recreate=recreate, max_rounds=max_rounds)

    def roll_out(
        self,
        manifests: Iterable[Manifest],
        *,
        namespace: str | None = None,
        rollout: Rollout = "auto",
        run_cron_jobs: bool = False,
    ) -> ChangePlan:
        """Say what applying manifests sets in motion, one object after the other, each followed to rest.

        Parameters
        ----------
        manifests : paths, or objects as dicts
        namespace : for objects that name none
        rollout : ``auto`` rolls workloads whose template is new; ``always`` those too that say nothing new; ``never``
            makes missing replicas only
        run_cron_jobs : cron jobs start a run now; else their pods come when their time comes

        Raises
        ------
        ManifestError
            With everything that is wrong with the manifests.
        """
        from kplan.planner.change import roll_out

        return roll_out(self, manifests, namespace=namespace, rollout=rollout, run_cron_jobs=run_cron_jobs)

    def drain(
        self,
        nodes: Sequence[str],
        *,
        lost: bool = False,
        one_by_one: bool = False,
        rolling: bool = False,
        replace: bool = False,
        options: DrainOptions | None = None,
    ) -> ChangePlan:
        """Say what draining nodes sets in motion.

        Parameters
        ----------
        lost : the nodes are gone at once, and no budget is asked
        one_by_one : pods leave one after the other, each when all is at rest: by node as given, then by name
        rolling : one node after the other, each taken into use again when it is empty
        replace : one node after the other, each replaced by a fresh one like it, of the same name, when it is empty
        options : which pods go in any case; None for none

        Raises
        ------
        NotFoundError
            When the snapshot has no such node.
        """
        from kplan.planner.change import drain

        return drain(self, nodes, lost=lost, one_by_one=one_by_one, rolling=rolling, replace=replace, options=options)

    def drain_in_turn(
        self,
        nodes: Sequence[str] | None = None,
        *,
        by: str | None = None,
        lost: bool = False,
        one_by_one: bool = False,
        options: DrainOptions | None = None,
    ) -> DrainsReport:
        """Say of every node whether it may go, each alone from the same start.

        Parameters
        ----------
        nodes : those that are looked at; None for all
        by : a label, ``zone`` or ``pool``: all nodes that share its value go together
        lost, one_by_one, options : as for `drain`

        Raises
        ------
        NotFoundError
            When the snapshot has no such node, or no node has the label.
        """
        from kplan.planner.drains import drains_report, label_of, together

        label = None if by is None else label_of(self, by)
        if by is not None and label is None:
            raise NotFoundError(f"no node has label {by}", hint="choose zone, pool or a label that nodes have")
        chosen = sorted(self.world.node_by_name) if nodes is None else nodes
        for name in chosen:
            if name not in self.world.node_by_name:
                raise no_node([name], self.world.node_by_name)
        groups = together(self, chosen, label)
        return drains_report(self, groups, label=label, lost=lost, one_by_one=one_by_one, options=options)

    def changed(
        self,
        *,
        with_: Iterable[str | Path | Mapping[str, Any]] = (),
        without: Iterable[str] = (),
        add_nodes: Iterable[str] = (),
        cordon: Iterable[str] = (),
        uncordon: Iterable[str] = (),
        scale: Iterable[str] = (),
        settle: bool = False,
    ) -> Self:
        """Return a planner of the cluster as it would be with changes, applied in the order of the parameters.

        This planner stays as it is, and shares what does not change. For another order, change what is changed.

        Parameters
        ----------
        with_ : files, directories, or objects that are there besides, or in place of those of the same name; a node
            without status takes its capacity from the node that its annotation ``kplan/like`` names
        without : ``KIND/[NS/]NAME``, which may hold globs, or ``KIND?label=value``, of objects that are not there, nor
            what they own; pods of nodes are pending again, as far as controllers make them
        add_nodes : ``N=NODE``, so many more nodes like this one, empty but for their daemons
        cordon, uncordon : names of nodes, or globs
        scale : ``KIND/[NS/]NAME=N``
        settle : then let whatever can move do so

        Raises
        ------
        NotFoundError
            When something that is named is not there; the hint names the nearest.
        UsageError
            When a change cannot be read.
        SnapshotError
            When a file cannot be used.
        """
        from kplan.planner.changed import changed
        from kplan.planner.on_paper import Settle, With, Without, cordoned, parse_add_nodes, parse_scale
        from kplan.planner.references import parse_reference

        asked: list[WhatIf] = [
            *map(With.of, with_),
            *(Without(parse_reference(each)) for each in without),
            *map(parse_add_nodes, add_nodes),
            *map(cordoned, cordon),
            *(cordoned(each, is_cordoned=False) for each in uncordon),
            *map(parse_scale, scale),
        ]
        return changed(self, [*asked, Settle()] if settle else asked)
