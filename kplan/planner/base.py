"""A snapshot's cluster as every question finds it; no question changes it."""

from __future__ import annotations

import copyreg
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from random import Random
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

import msgspec

from kplan.admission.disabled_fields import disabled_fields, drop, without_disabled_fields
from kplan.api.core import Pod
from kplan.config.model import SchedulerConfiguration
from kplan.config.releases import AUTO, HEAP, Release
from kplan.documents.base import Context, InputWarning, SchedulerRef, SnapshotRef
from kplan.documents.placement import Origin
from kplan.engine.cluster import NOWHERE
from kplan.errors import UsageError
from kplan.framework.extenders import Extender
from kplan.framework.listers import Listers
from kplan.framework.session import Session, SessionOptions
from kplan.planner.diagnosis.lazily import Diagnosing
from kplan.planner.explanation import Explanation, Shown, explain
from kplan.planner.incoming import IncomingPod, with_objects
from kplan.planner.not_found import has_ended, no_pod
from kplan.planner.placement import Explain, NodesShown, placement_of
from kplan.planner.plan import Plan
from kplan.planner.question_pods import QuestionPods
from kplan.planner.release import Ties, as_decided, server_warnings, tie_rule
from kplan.planner.sequence import Replay, Run
from kplan.planner.standing import standing
from kplan.planner.unmodelled import unmodelled, unmodelled_of
from kplan.plugins.registry import PluginClass, out_of_tree, plugin_factory
from kplan.rules.pod_info import PodInfo
from kplan.snapshot.model import Snapshot, missing_warning

if TYPE_CHECKING:
    from kplan.simulation.loop import Simulation

Sampling = Literal["all", "as-configured"]
PodLike = str | Pod | Mapping[str, Any] | IncomingPod

S = TypeVar("S", bound=msgspec.Struct)

_EAGER_CELLS = 2_000
"""Up to so many node explanations a plan are read out at once; beyond, a decision is brought back when asked for."""


Progress = Callable[[int, int | None], None]
"""Told how many decisions or steps were made, and of how many, where that is known."""


class Base:
    """A snapshot's cluster under a scheduler configuration.

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
        self.on_progress: Progress | None = None  #: told how far an answer is; None for nobody
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
        self._additions = tuple(additions)
        self.world = without_disabled_fields(
            with_objects(snapshot, self._additions),
            self.release.is_on,
            counts_ports_of_sidecars=self.release.rules.counts_ports_of_sidecars,
        )
        self._asked_with = tuple(warnings)
        #: until its session is made, the planner of a cluster much like this one, what is the same being shared
        self.shares_with: Base | None = None

    @cached_property
    def session(self) -> Session:
        """The snapshot's cluster before anything is planned; not to be changed, only forked."""
        origin = None if self.shares_with is None else self.shares_with.session.cluster
        cluster = standing(self.world, origin)
        cluster.derive_pod_columns()
        session = Session(
            cluster, Listers(self.world), self.config, plugin_factory(self.plugins), self.options, self.extenders
        )
        session.nominate_from_status(range(len(cluster.pods)))
        self.shares_with = None
        return session

    @cached_property
    def at_rest(self) -> Simulation:
        """The cluster before anything moves; not to be run, only forked."""
        from kplan.simulation.start import start

        return start(self.session_for(self.world), self.world)

    def session_for(self, world: Snapshot) -> Session:
        """Return a session of its own in which things may move, with objects that the world holds besides."""
        session = self.fork(listers=Listers(world))
        session.nominate_from_status(self.pending().rows)
        return session

    @cached_property
    def warnings(self) -> tuple[InputWarning, ...]:
        """What snapshot and configuration hold that is odd, missing or not modelled, whatever is asked."""
        named = {warning.object for warning in self.snapshot.warnings if warning.code == "MissingKind"}
        missing = (missing_warning(each) for each in self.snapshot.missing if each.resource not in named)
        not_honoured = unmodelled(self.world, self.config, self.extenders)
        server = server_warnings(self.config, self.snapshot, is_given=self.is_release_given)
        return (*missing, *server, *self.snapshot.warnings, *self.config.warnings, *self._asked_with, *not_honoured)

    @property
    def release(self) -> Release:
        """The release of Kubernetes that it decides as."""
        return self.config.release

    def context(self, asked: QuestionPods | None = None) -> Context:
        """Return what the report of a question says besides its answer."""
        snapshot = self.snapshot
        added = unmodelled_of(info.pod for info in asked.added) if asked is not None else ()
        return Context(
            snapshot=SnapshotRef(
                source=snapshot.source,
                taken_at=snapshot.taken_at,
                nodes=len(snapshot.nodes),
                pods=len(snapshot.pods),
                digest=snapshot.digest,
                missing=snapshot.missing,
                changes=snapshot.changes or msgspec.UNSET,
            ),
            scheduler=SchedulerRef(
                kubernetes_version=self.release.version,
                feature_gates=dict(self.release.switched),
                ties=self.ties,
                seed=self.options.seed,
                profiles=tuple(profile.scheduler_name for profile in self.config.profiles),
                config_source=self.config.source,
            ),
            warnings=tuple(dict.fromkeys((*self.warnings, *added))),
        )

    def with_world(
        self, snapshot: Snapshot, additions: Iterable[msgspec.Struct] = (), warnings: Iterable[InputWarning] = ()
    ) -> Self:
        """Return the same for another cluster; additions and warnings as for a new one."""
        return type(self)(snapshot, **self._settings(additions, warnings))

    def with_additions(self, additions: Iterable[msgspec.Struct], warnings: Iterable[InputWarning] = ()) -> Self:
        """Return the same for a cluster that holds further objects; additions and warnings as for a new one."""
        return self.with_world(self.snapshot, (*self._additions, *additions), (*self._asked_with, *warnings))

    def _settings(
        self, additions: Iterable[msgspec.Struct] = (), warnings: Iterable[InputWarning] = ()
    ) -> dict[str, Any]:
        """Return the parameters of a planner that differs in its cluster only."""
        return {
            "config": self.config,
            "kubernetes": self.release.version if self.is_release_given else None,
            "feature_gates": self.release.switched,
            "sampling": "as-configured" if self.options.sample else "all",
            "start_index": self.options.start_index,
            "ties": self.ties,
            "seed": self.options.seed,
            "extenders": self.extenders,
            "plugins": self.plugins,
            "additions": additions,
            "warnings": warnings,
        }

    def __reduce__(self) -> tuple[Any, ...]:
        """Send what was asked for, not what was worked out: that is made anew where it is needed."""
        return (_remade, (type(self), self.snapshot, self._settings(self._additions, self._asked_with)))

    def with_snapshot(self, snapshot: Snapshot) -> Self:
        """Return the same question about this cluster changed; what is the same object is not worked out anew."""
        other = self.with_world(snapshot, self._additions, self._asked_with)
        other.shares_with = self if "session" in self.__dict__ else self.shares_with
        return other

    def resolve(self, pods: Iterable[PodLike]) -> QuestionPods:
        """Return the pods of a question.

        Raises
        ------
        NotFoundError
            When the snapshot has no such pod.
        UsageError
            When a pod already runs, or has ended.
        """
        rows: list[int] = []
        added: list[PodInfo] = []
        origins: dict[int, Origin] = {}
        refused: dict[int, str] = {}
        more: dict[int, int] = {}
        first = len(self.session.cluster.pods)
        for pod in pods:
            if isinstance(pod, str):
                rows.append(self._pending(pod))
                continue
            row = first + len(added)
            rows.append(row)
            added.append(PodInfo(self.as_stored(pod.pod if isinstance(pod, IncomingPod) else _decoded(pod))))
            if isinstance(pod, IncomingPod):
                origins[row] = pod.origin
                if pod.refused:
                    refused[row] = pod.refused
                if pod.more:
                    more[row] = pod.more
        return QuestionPods(tuple(rows), tuple(added), origins, refused, more)

    def pending(self) -> QuestionPods:
        """Return all pending pods of the snapshot."""
        return self._all_pending

    @cached_property
    def _all_pending(self) -> QuestionPods:
        keys = (f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in self.world.pods if not pod.spec.node_name)
        rows = (self.session.find(key) for key in keys)
        node_of = self.session.cluster.node_of
        return QuestionPods(tuple(sorted(row for row in rows if row is not None and node_of[row] == NOWHERE)))

    def queue_of(self, pods: Iterable[PodLike] | None, *, with_pending: bool = False) -> QuestionPods:
        """Return the pods that a queue is made of, each once; None for every pending pod of the snapshot.

        Parameters
        ----------
        with_pending : every pending pod of the snapshot besides
        """
        pending = self.pending().rows if pods is None or with_pending else ()
        return self.resolve(pods or ()).distinct(pending)

    def pending_keys(self) -> list[str]:
        """List the pending pods of the snapshot, NAMESPACE/NAME."""
        infos = self.session.cluster.pods.infos
        return [infos[row].key for row in self.pending().rows]

    def info_of(self, asked: QuestionPods, row: int) -> PodInfo:
        """Return a pod of the snapshot or of a question."""
        infos = self.session.cluster.pods.infos
        return infos[row] if row < len(infos) else asked.added[row - len(infos)]

    def as_stored(self, obj: S) -> S:
        """Return an object as far as it counts in this release: without the fields whose feature gates are off."""
        counts_ports = self.release.rules.counts_ports_of_sidecars
        return drop((obj,), disabled_fields(self.release.is_on, counts_ports_of_sidecars=counts_ports))[0]

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

    def fork(
        self, asked: QuestionPods | None = None, listers: Listers | None = None, random: Random | None = None
    ) -> Session:
        """Return a session of a question's own, in which its pods are known.

        Parameters
        ----------
        listers : other objects than the snapshot's, around the same nodes and pods
        random : draws of another origin than the planner's own
        """
        session = self.session.fork(listers, random=random)
        if asked is not None:
            asked.enter(session)
        return session

    def decide(self, asked: QuestionPods, run: Callable[[Session], Run], listers: Listers | None = None) -> Plan:
        """Run a plan in a fork and keep its decisions; `run` starts it, anew whenever one is to be brought back."""
        session = self.fork(asked, listers)
        replay = Replay(lambda: run(self.fork(asked, listers)))
        names = session.cluster.nodes.names
        is_small = len(names) * len(asked.rows) <= _EAGER_CELLS or bool(self.extenders)
        # Calling an extender again may give another answer, so nothing is tried.
        diagnosing = Diagnosing(replay, asked, is_final=bool(self.extenders))
        placements = []
        for index, result in enumerate(run(session)):
            known = explain(result, names) if is_small else None
            tell = self._teller(index, known, replay, names)
            tell_why = diagnosing.teller(session, index, result)
            placements.append(placement_of(session, result, tell, asked.origins, tell_why))
            if self.on_progress is not None:
                self.on_progress(len(placements), len(asked.rows))
        more = {self.info_of(asked, row).key: n for row, n in asked.more.items()}
        return Plan(tuple(placements), self.session.cluster, session, more, make_context=partial(self.context, asked))

    def _teller(self, index: int, known: Explanation | None, replay: Replay, names: list[str]) -> Explain:
        def tell(nodes: NodesShown) -> Explanation:
            if known is not None and nodes is None:
                return known
            # Calling an extender again may give another answer, so what it led to is not brought back.
            if known is not None and isinstance(nodes, Shown) and (self.extenders or not nodes.with_score_details):
                return known.narrowed(nodes)
            return explain(replay.at(index), names, nodes)

        return tell


def _sent_view(view: MappingProxyType[Any, Any]) -> tuple[Any, ...]:
    return (_view, (dict(view),))


def _view(mapping: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(mapping)


# Configurations hold views of mappings, which Python itself does not know how to send to another process.
copyreg.pickle(MappingProxyType, _sent_view)


def _remade(cls: type[Base], snapshot: Snapshot, settings: Mapping[str, Any]) -> Base:
    return cls(snapshot, **settings)


def _decoded(pod: Pod | Mapping[str, Any]) -> Pod:
    if isinstance(pod, Pod):
        return pod
    from kplan.snapshot.objects import decode_pod

    return decode_pod(pod)
