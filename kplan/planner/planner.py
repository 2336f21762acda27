"""The planner: asks a snapshot's cluster where pods would go.

It joins framework and plugins, and nothing else does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, Literal

import msgspec

from kplan.admission.disabled_fields import disabled_fields, drop, without_disabled_fields
from kplan.api.core import Pod
from kplan.config.model import SchedulerConfiguration
from kplan.config.releases import AUTO, HEAP, Release
from kplan.engine.cluster import NOWHERE, Cluster
from kplan.engine.node_table import NodeTable
from kplan.errors import UsageError
from kplan.framework.cycle import CycleResult
from kplan.framework.extenders import Extender
from kplan.framework.interface import PostFilterResult
from kplan.framework.listers import Listers
from kplan.framework.session import Session, SessionOptions
from kplan.planner.capacity import Template
from kplan.planner.capacity_plan import Capacity, measure
from kplan.planner.change import ChangePlan, drain, roll_out
from kplan.planner.explanation import Explanation, Shown, explain
from kplan.planner.incoming import IncomingPod, with_objects
from kplan.planner.not_found import has_ended, no_pod
from kplan.planner.placement import Explain, Origin, Placement, PodRef
from kplan.planner.plan import Plan
from kplan.planner.pods import MadePod, made_pods
from kplan.planner.queue_plan import QueuePlan
from kplan.planner.queue_run import DEFAULT_MAX_ROUNDS, QueueRun
from kplan.planner.release import Ties, as_decided, server_warnings, tie_rule
from kplan.planner.run import Replay, Run, run_in_order
from kplan.planner.successors import claims_of_successors
from kplan.planner.unmodelled import unmodelled
from kplan.plugins.registry import PluginClass, out_of_tree, plugin_factory
from kplan.preemption import PreemptionResult, not_tried
from kplan.rules.pod_info import PodInfo
from kplan.simulation.applying import Rollout
from kplan.snapshot.knowledge import missing_warning
from kplan.snapshot.model import Snapshot
from kplan.snapshot.model import Warning as InputWarning
from kplan.workloads.changes import Manifest
from kplan.workloads.manifests import Strictness, load_manifests
from kplan.workloads.sources import Source

Sampling = Literal["all", "as-configured"]
PodLike = str | Pod | Mapping[str, Any] | IncomingPod

_TERMINATED = ("Succeeded", "Failed")

_EAGER_CELLS = 2_000
"""Up to so many node explanations a plan are read out at once; beyond, a decision is brought back when asked for."""


class Planner:
    """Answers questions about a snapshot under a scheduler configuration.

    Parameters
    ----------
    snapshot : the cluster
    config : None for kube-scheduler's defaults
    kubernetes : decide as this minor, such as ``1.34``; None or ``auto`` takes the one that the configuration was
        loaded for, else the server's, else the newest
    feature_gates : feature gates that are not as by default
    sampling : ``all`` looks at every node; ``as-configured`` stops early as percentageOfNodesToScore says
    start_index : where the first sampled search starts
    ties : which of equal best nodes is taken: ``scheduler``, the one that this release most likely takes, ``name``, the
        first by name, or ``even``, a draw in which each is as likely as the others; None means ``even`` with a seed,
        else ``scheduler``
    seed : of even draws
    extenders : extenders to call; none are called by default
    plugins : classes of plugins that kube-scheduler does not bring along, for profiles that enable them
    additions : objects that the cluster would hold besides, such as those that come with manifests
    warnings : what was odd about the question, to be told with every answer
    """

    def __init__(
        self,
        snapshot: Snapshot,
        config: SchedulerConfiguration | None = None,
        *,
        kubernetes: str | None = None,
        feature_gates: Mapping[str, bool] | None = None,
        sampling: Sampling = "all",
        start_index: int = 0,
        ties: Ties | None = None,
        seed: int | None = None,
        extenders: Sequence[Extender] = (),
        plugins: Iterable[PluginClass] = (),
        additions: Iterable[msgspec.Struct] = (),
        warnings: Iterable[InputWarning] = (),
    ) -> None:
        if sampling not in ("all", "as-configured"):
            raise UsageError(f"unknown sampling: {sampling!r}", hint='use "all" or "as-configured"')
        self.snapshot = snapshot
        self.plugins = tuple(plugins)
        self.config = as_decided(config, snapshot, kubernetes, feature_gates, out_of_tree(self.plugins))
        self.is_release_given = kubernetes not in (None, AUTO) or (config is not None and config.is_release_given)
        self.ties: Ties = tie_rule(ties, seed)
        self.options = SessionOptions(
            sampling == "as-configured",
            start_index,
            (seed or 0) if self.ties == "even" else None,
            follows_heap=self.ties == "scheduler" and self.release.rules.ties == HEAP,
        )
        self.extenders = tuple(extenders)
        self.world = without_disabled_fields(with_objects(snapshot, additions), self.release.is_on)
        self._asked_with = tuple(warnings)
        self._origins: dict[int, Origin] = {}

    @cached_property
    def session(self) -> Session:
        """The snapshot's cluster before anything is planned; not to be changed, only forked."""
        nodes = NodeTable(self.world.nodes)
        infos = [PodInfo(pod) for pod in self.world.pods if pod.status.phase not in _TERMINATED]
        # Among equal victims the order on the node decides, and the order in a file must not.
        infos.sort(key=lambda info: (info.namespace, info.name))
        cluster = Cluster.build(nodes, infos)
        cluster.derive_pod_columns()
        session = Session(
            cluster, Listers(self.world), self.config, plugin_factory(self.plugins), self.options, self.extenders
        )
        session.nominate_from_status(range(len(infos)))
        return session

    @cached_property
    def warnings(self) -> tuple[InputWarning, ...]:
        """What the question, the snapshot and the configuration hold that is odd, missing or not modelled."""
        asked_about = [self.session.cluster.pods.infos[row].pod for row in self._origins]
        not_honoured = unmodelled(self.world, asked_about, self.config, self.extenders)
        told = {each.object for each in self.snapshot.warnings if each.code == "MissingKind"}
        missing = (missing_warning(each) for each in self.snapshot.missing if each.resource not in told)
        server = server_warnings(self.config, self.snapshot, is_given=self.is_release_given)
        return (*missing, *server, *self.snapshot.warnings, *self.config.warnings, *self._asked_with, *not_honoured)

    @property
    def release(self) -> Release:
        """The release of Kubernetes that it decides as."""
        return self.config.release

    # --- questions ----------------------------------------------------------------------------------------------------

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
    ) -> list[MadePod]:
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
        found = load_manifests(manifests, snapshot=self.world, namespace=namespace, validate=validate)
        return list(made_pods(found, self.world).pods)

    def plan(
        self,
        pods: Iterable[PodLike],
        *,
        settle_preemption: bool = False,
    ) -> Plan:
        """Place pods in the order given on a private copy of the cluster.

        Parameters
        ----------
        settle_preemption : let preemption take place, and try its pod again right after

        Raises
        ------
        NotFoundError, UsageError
            As for `place`.
        """
        ids = [self.pod_id(pod) for pod in pods]

        def start() -> tuple[Session, Run]:
            session = self.session.fork()
            return session, run_in_order(session, ids, settle_preemption=settle_preemption)

        return self.collect(start, expected=len(ids))

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
        ids = self.queue_ids(pods, with_pending=with_pending)
        runs: list[QueueRun] = []
        listers = self._with_successors(ids) if recreate else self.session.listers

        def start() -> tuple[Session, Run]:
            session = self.session.fork(listers)
            session.nominate_from_status(ids)
            runs.append(QueueRun(session, ids, recreate=recreate, max_rounds=max_rounds))
            return session, iter(runs[-1])

        plan = self.collect(start, expected=len(ids))
        return QueuePlan(self, plan.placements, runs[0], self.session.cluster, plan.session.cluster)

    def _with_successors(self, pods: Sequence[int]) -> Listers:
        """Return listers that know the claims of pods that controllers make again when these pods preempt."""
        infos = self.session.cluster.pods.infos
        highest = max((infos[pod].priority for pod in pods), default=0)
        victims = (info for info in infos if info.priority < highest)
        claims = claims_of_successors(victims, self.world)
        return Listers(with_objects(self.world, claims)) if claims else self.session.listers

    def roll_out(
        self, manifests: Iterable[Manifest], *, namespace: str | None = None, rollout: Rollout = "auto"
    ) -> ChangePlan:
        """Say what applying manifests sets in motion, one object after the other, each followed to rest.

        Parameters
        ----------
        manifests : paths, or objects as dicts
        namespace : for objects that name none
        rollout : ``auto`` rolls workloads whose template is new; ``always`` those too that say nothing new; ``never``
            makes missing replicas only

        Raises
        ------
        ManifestError
            With everything that is wrong with the manifests.
        """
        return roll_out(self, manifests, namespace=namespace, rollout=rollout)

    def drain(
        self,
        nodes: Sequence[str],
        *,
        lost: bool = False,
        one_by_one: bool = False,
        rolling: bool = False,
        replace: bool = False,
    ) -> ChangePlan:
        """Say what draining nodes sets in motion.

        Parameters
        ----------
        lost : the nodes are gone at once, and no budget is asked
        one_by_one : pods leave one after the other, each when all is at rest: by node as given, then by name
        rolling : one node after the other, each taken into use again when it is empty
        replace : one node after the other, each replaced by a fresh one like it, of the same name, when it is empty

        Raises
        ------
        NotFoundError
            When the snapshot has no such node.
        """
        return drain(self, nodes, lost=lost, one_by_one=one_by_one, rolling=rolling, replace=replace)

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
        return measure(self, templates, wanted=wanted, limit=limit, preempt=preempt, progress=progress)

    def collect(self, start: Callable[[], tuple[Session, Run]], *, expected: int) -> Plan:
        """Run a plan and keep its decisions; `start` makes a fresh session and the run in it."""
        replay = Replay(lambda: start()[1])
        session, run = start()
        names = session.cluster.nodes.names
        is_small = len(names) * expected <= _EAGER_CELLS or bool(self.extenders)
        placements = []
        for index, result in enumerate(run):
            known = explain(result, names) if is_small else None
            placements.append(self._placement(session, result, index, known, replay))
        return Plan(self, tuple(placements), session)

    def placement_of(self, session: Session, result: CycleResult) -> Placement:
        """Return a decision after which its session does not change any more."""
        names = session.cluster.nodes.names
        return self._describe(session, result, lambda nodes: explain(result, names, nodes))

    def with_world(
        self, snapshot: Snapshot, additions: Iterable[msgspec.Struct] = (), warnings: Iterable[InputWarning] = ()
    ) -> Planner:
        """Return a planner that asks the same way about another cluster; additions and warnings as for a new one."""
        return Planner(
            snapshot,
            self.config,
            kubernetes=self.release.version if self.is_release_given else None,
            feature_gates=self.release.switched,
            sampling="as-configured" if self.options.sample else "all",
            start_index=self.options.start_index,
            ties=self.ties,
            seed=self.options.seed,
            extenders=self.extenders,
            plugins=self.plugins,
            additions=additions,
            warnings=warnings,
        )

    # --- pods ---------------------------------------------------------------------------------------------------------

    def pending_ids(self) -> list[int]:
        """Return the rows of all pending pods of the snapshot."""
        cluster = self.session.cluster
        keys = (f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in self.world.pods if not pod.spec.node_name)
        rows = (self.session.find(key) for key in keys)
        return sorted(row for row in rows if row is not None and cluster.node_of[row] == NOWHERE)

    def queue_ids(self, pods: Iterable[PodLike] | None = None, *, with_pending: bool = False) -> list[int]:
        """Return the rows of the pods that a queue is made of, each once; parameters as for `plan_queue`."""
        pending = self.pending_ids() if pods is None or with_pending else []
        return list(dict.fromkeys((*pending, *(self.pod_id(pod) for pod in pods or ()))))

    def origin_of(self, pod: int) -> Origin | None:
        """Return where a pod that is not in the snapshot comes from; None for any other."""
        return self._origins.get(pod)

    def pod_id(self, pod: PodLike) -> int:
        """Return the row of a pod to place; one that is not in the snapshot is made known.

        Raises
        ------
        NotFoundError, UsageError
            As for `place`.
        """
        if isinstance(pod, str):
            return self._pending(pod)
        if not isinstance(pod, IncomingPod):
            return self.session.cluster.add_pod(PodInfo(self._as_stored(self._as_pod(pod))))
        row = self.session.cluster.add_pod(PodInfo(self._as_stored(pod.pod)))
        self._origins[row] = pod.origin
        if pod.refused:
            self.session.refused[row] = pod.refused
        return row

    def _as_stored(self, pod: Pod) -> Pod:
        """Return a pod as the API server would store it, whose feature gates the release has."""
        return drop((pod,), disabled_fields(self.release.is_on))[0]

    def _as_pod(self, pod: Pod | Mapping[str, Any]) -> Pod:
        if isinstance(pod, Pod):
            return pod
        from kplan.snapshot.objects import decode_pod

        return decode_pod(pod)

    def _pending(self, key: str) -> int:
        row = self.session.find(key)
        infos = self.session.cluster.pods.infos
        if row is None:
            if (pod := self.world.pod_by_key.get(key)) and (error := has_ended(pod)):
                raise error
            raise no_pod(key, [info.key for info in infos])
        if self.session.cluster.node_of[row] != NOWHERE or infos[row].pod.spec.node_name:
            raise UsageError(
                f"pod {key} already runs on node {infos[row].pod.spec.node_name}",
                hint=f"kplan explain {key} tells why it is there",
            )
        return row

    def _placement(
        self, session: Session, result: CycleResult, index: int, known: Explanation | None, replay: Replay
    ) -> Placement:
        names = session.cluster.nodes.names

        def tell(nodes: Iterable[str] | Shown | None) -> Explanation:
            if known is not None and nodes is None:
                return known
            # Calling an extender again may give another answer, so what it led to is not brought back.
            if known is not None and isinstance(nodes, Shown) and (self.extenders or not nodes.with_score_details):
                return known.narrowed(nodes)
            return explain(replay.at(index), names, nodes)

        return self._describe(session, result, tell)

    def _describe(self, session: Session, result: CycleResult, tell: Explain) -> Placement:
        info = session.cluster.pods.infos[result.pod]
        names = session.cluster.nodes.names
        found = result.post_filter
        nominated = None if found is None or found.nominated_row is None else names[found.nominated_row]
        return Placement(
            PodRef.of(info, self._origins.get(result.pod)),
            result.outcome,
            None if result.row is None else names[result.row],
            result.message,
            tell,
            None if found is None else partial(_preemption, found),
            nominated,
            found.detail if found is not None and isinstance(found.detail, PreemptionResult) else None,
        )


def _preemption(found: PostFilterResult) -> dict[str, Any]:
    """Return the contract's preemption object; its message is what all PostFilter plugins said together."""
    if isinstance(found.detail, PreemptionResult):
        return found.detail.to_dict(found.status.message)
    return not_tried(found.status.message)
