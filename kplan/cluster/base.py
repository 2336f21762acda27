"""The cluster of a snapshot, from which every question starts; no question changes it."""

from __future__ import annotations

import copyreg
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeVar, get_args

import msgspec
import numpy as np

from kplan.admission.gates import GatedField, disabled_fields, drop, without_disabled_fields
from kplan.api.core import Pod, parse_version
from kplan.api.pod import ENDED
from kplan.api.time import from_micros, to_micros
from kplan.cluster.incoming import IncomingPod, with_objects
from kplan.cluster.runs import QuestionPods
from kplan.cluster.unmodelled import unmodelled, unmodelled_of
from kplan.cluster.workload_pods import has_ended, no_pod, workloads_called
from kplan.config.loading import default_configuration, read_again
from kplan.config.model import SchedulerConfiguration
from kplan.config.releases import AUTO, HEAP, Release, chosen_release, nearest, with_gates
from kplan.config.releases.model import version_note
from kplan.documents.base import Context, SchedulerRef, SnapshotRef
from kplan.documents.base import now as present
from kplan.documents.placement import Origin
from kplan.engine.cluster import NOWHERE, Cluster
from kplan.engine.node_table import NodeTable
from kplan.errors import UsageError
from kplan.facts import InputWarning
from kplan.framework.interface import Extender
from kplan.framework.listers import Listers
from kplan.framework.session import Session, SessionOptions
from kplan.plugins.registry import PluginClass, out_of_tree, plugin_factory
from kplan.reading.arguments import PlannerSettings, checked_by, listed
from kplan.rules.pod_info import DistinctResources, PodInfo
from kplan.snapshot.load import as_snapshot, decode_pod
from kplan.snapshot.model import Snapshot, missing_warning

if TYPE_CHECKING:
    from random import Random

    from kplan.autoscaling.seam import Autoscaler
    from kplan.autoscaling.settings import Settings
    from kplan.changes.limits import Pool

Ties = Literal["scheduler", "name", "even"]
TIES: Final[tuple[Ties, ...]] = get_args(Ties)


def as_decided(
    config: SchedulerConfiguration | None,
    snapshot: Snapshot,
    kubernetes: str | None,
    feature_gates: Mapping[str, bool] | None,
    out_of_tree: Mapping[str, frozenset[str]] = MappingProxyType({}),
) -> SchedulerConfiguration:
    """Return the configuration as the chosen release reads it.

    That is the release `kubernetes`, else the one that the configuration was loaded for, else that of the snapshot's
    server, else the newest. Names of out-of-tree plugins lead to their extension points.

    Raises ConfigError when that release would refuse the configuration, and UsageError when there is no such release,
    a feature gate cannot be set, or `config` is no configuration.
    """
    if not isinstance(config, SchedulerConfiguration | None):
        hint = "load it: kplan.load_scheduler_config(path)"
        raise UsageError(f"{config!r} is no scheduler configuration", hint=hint)
    gates = {**({} if config is None else config.release.switched), **(feature_gates or {})}
    release = chosen_release(kubernetes, gates)
    if release is None and config is not None and config.is_release_explicit:
        release = with_gates(config.release, gates)
    if release is None:
        release = with_gates(nearest(snapshot.server_version), gates)
    release = release.with_plugins(out_of_tree)
    return default_configuration(release) if config is None else read_again(config, release)


def tie_rule(ties: Ties | None, seed: int | None) -> Ties:
    """Return the rule by which one of several equal best nodes is chosen; a seed alone means even draws.

    Raises UsageError for an unknown rule, and for a seed with a rule that draws nothing.
    """
    if ties is None:
        return "scheduler" if seed is None else "even"
    if ties not in TIES:
        raise UsageError(f"unknown ties: {ties!r}", hint=f"use {', '.join(TIES)}")
    if seed is not None and ties != "even":
        hint = "leave the seed out, or use ties even"
        raise UsageError(f"a seed is for draws, and ties {ties} draws none", hint=hint)
    return ties


def _mapping_proxy(mapping: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(mapping)


# Configurations hold mapping proxies, which Python cannot pickle by itself, nor their class, which has no such name.
copyreg.pickle(MappingProxyType, lambda view: (_mapping_proxy, (dict(view),)))

Sampling = Literal["all", "as-configured"]
PodLike = str | Pod | Mapping[str, Any] | IncomingPod

S = TypeVar("S", bound=msgspec.Struct)
T = TypeVar("T")

Progress = Callable[[int, int | None], None]
"""Called with the number of decisions or steps so far, and the number of all if it is known."""


class Base:
    """A snapshot's cluster under a scheduler configuration.

    Parameters
    ----------
    snapshot : the cluster, or what `kplan.load_snapshot` loads: a path, or ``demo``
    config : None for kube-scheduler's defaults
    kubernetes : decide as this minor, such as ``1.34``; None or ``auto`` for the minor that the configuration was
        loaded for, else the server's, else the newest
    feature_gates : feature gates that differ from their defaults
    sampling : ``all`` looks at every node; ``as-configured`` stops early as percentageOfNodesToScore says
    start_index : where the first sampled search starts
    ties : which of several equal best nodes is chosen: ``scheduler``, the node that this release most likely chooses;
        ``name``, the first by name; ``even``, a draw in which all are equally likely; None for ``even`` with a seed,
        else ``scheduler``
    seed : of even draws
    extenders : extenders to call; none are called by default
    plugins : classes of out-of-tree plugins, for profiles that enable them
    additions : further objects of the cluster, such as the services and claims of manifests
    warnings : warnings about the question, which every answer repeats
    autoscaler : the autoscaler to follow; None for none
    now : the moment of the question, RFC 3339; None for the time of the snapshot, or the present if that is unknown
    """

    @checked_by(PlannerSettings, "Planner")
    def __init__(
        self,
        snapshot: Snapshot | str | Path,
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
        autoscaler: Settings | None = None,
        now: str | None = None,
    ) -> None:
        self.on_progress: Progress | None = None  #: called while an answer is computed
        self.gives_digest = True  #: answers name the digest of the snapshot, which takes a while; tables do not show it
        self.snapshot = snapshot = as_snapshot(snapshot)
        self.plugins = tuple(listed(plugins))
        self.config = as_decided(config, snapshot, kubernetes, feature_gates, out_of_tree(self.plugins))
        self.is_release_explicit = kubernetes not in (None, AUTO) or (config is not None and config.is_release_explicit)
        self.ties: Ties = tie_rule(ties, seed)
        self.options = SessionOptions(
            sampling == "as-configured",
            start_index,
            (seed or 0) if self.ties == "even" else None,
            follows_heap=self.ties == "scheduler" and self.release.rules.ties == HEAP,
        )
        self.extenders = tuple(listed(extenders))
        self._additions = tuple(additions)
        #: the cluster as the scheduler reads it: with the additions, without the fields that gates hide
        self.objects = without_disabled_fields(with_objects(snapshot, self._additions), self._disabled_fields)
        self._question_warnings = tuple(warnings)
        self.autoscaler = autoscaler
        self._now = now
        if now is not None:
            self.now  # noqa: B018 - checks the time
        self._derived: dict[Callable[[Base], Any], Any] = {}
        #: the base of a similar cluster, with which the session shares equal nodes and pods; None once that is built
        self.shares_with: Base | None = None
        self.made_from: Self | None = None  #: the base of the snapshot alone that this one was made from

    @cached_property
    def now(self) -> int:
        """The moment of the question, in microseconds since 1970; raises UsageError for one that is not a time.

        By default it is the time of the snapshot, the last moment of which it tells, or the present.
        """
        try:
            if text := self._now or self.snapshot.taken_at:
                return to_micros(text)
            known = self.snapshot.latest_known
            return to_micros(present()) if known is None else round(known * 1e6)
        except ValueError as error:
            raise UsageError(f"now: {error}") from None

    @cached_property
    def followed(self) -> Autoscaler | None:
        """The autoscaler that answers follow, set up for the cluster; None for none.

        Raises UsageError or InputError for settings that it does not understand.
        """
        if self.autoscaler is None:
            return None
        from kplan.autoscaling.settings import read, set_up

        self.autoscaler = read(self.autoscaler)
        return set_up(self.autoscaler, self.objects)

    @cached_property
    def session(self) -> Session:
        """The snapshot's cluster before any plan; questions fork it and never change it."""
        origin = None if self.shares_with is None else self.shares_with.session.cluster
        cluster = cluster_of(self.objects, origin)
        cluster.pods.is_origin = True
        session = Session(
            cluster, Listers(self.objects), self.config, plugin_factory(self.plugins), self.options, self.extenders
        )
        session.nominate_from_status(range(len(cluster.pods)))
        self.shares_with = None
        return session

    def derived(self, derive: Callable[[Base], T]) -> T:
        """Return what a function derives from the cluster, which is done once for all questions."""
        if derive not in self._derived:
            self._derived[derive] = derive(self)
        known: T = self._derived[derive]
        return known

    def session_for(self, snapshot: Snapshot) -> Session:
        """Return a new fork of the session whose listers read the objects of `snapshot`."""
        session = self.fork(listers=Listers(snapshot))
        session.nominate_from_status(self.pending.rows)
        return session

    @cached_property
    def warnings(self) -> tuple[InputWarning, ...]:
        """Warnings about the snapshot and the configuration, which every answer repeats."""
        snapshot, server = self.snapshot, self.snapshot.server_version
        named = {warning.object for warning in snapshot.warnings if warning.code == "MissingKind"}
        warnings = [missing_warning(kind) for kind in snapshot.missing if kind.resource not in named]
        if server and not self.is_release_explicit:
            version = parse_version(server)
            note = version_note(server, None if version is None else version[0], self.release)  # empty for a known one
            warnings += [InputWarning("ServerVersion", server, note)] if note else []
        as_served = with_objects(snapshot, self._additions)  # with the fields that gates hide from the scheduler
        not_honoured = unmodelled(as_served, self.config, self.extenders)
        return (*warnings, *snapshot.warnings, *self.config.warnings, *self._question_warnings, *not_honoured)

    @property
    def release(self) -> Release:
        return self.config.release

    def context(self, question: QuestionPods | None = None) -> Context:
        """Return the parts of a report that describe the cluster and the scheduler, and the warnings."""
        snapshot = self.snapshot
        added = unmodelled_of((info.pod for info in question.added), self.config) if question is not None else ()
        return Context(
            snapshot=SnapshotRef.of(snapshot, has_digest=self.gives_digest),
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

    def for_cluster(
        self,
        snapshot: Snapshot,
        additions: Iterable[msgspec.Struct] = (),
        warnings: Iterable[InputWarning] = (),
        *,
        not_before: int | None = None,
    ) -> Self:
        """Return a base with the same settings for another cluster.

        The moment of the question becomes `not_before`, in microseconds since 1970, if it is earlier.
        """
        settings = self._settings(additions, warnings)
        if not_before is not None and not_before > self.now:
            settings["now"] = from_micros(not_before)
        other = type(self)(snapshot, **settings)
        other.gives_digest = self.gives_digest
        has_more = self._additions or self._question_warnings
        if snapshot is self.snapshot and not_before is None:
            other.made_from = self.made_from if has_more else self
        return other

    @property
    def plain(self) -> Self:
        """The base of the snapshot alone, with what it has derived, where this one was made from it."""
        plain = self.made_from if self._additions or self._question_warnings else self
        if plain is None or (plain.gives_digest, plain.autoscaler) != (self.gives_digest, self.autoscaler):
            return self.for_cluster(self.snapshot)
        return plain

    def with_additions(self, additions: Iterable[msgspec.Struct]) -> Self:
        """Return the same for a cluster that holds further objects; additions as for a new one."""
        return self.for_cluster(self.snapshot, (*self._additions, *additions), self._question_warnings)

    def _settings(
        self, additions: Iterable[msgspec.Struct] = (), warnings: Iterable[InputWarning] = ()
    ) -> dict[str, Any]:
        """Return the keyword arguments for a base that differs in its cluster only."""
        return {
            "config": self.config,
            "kubernetes": self.release.version if self.is_release_explicit else None,
            "feature_gates": self.release.switched,
            "sampling": "as-configured" if self.options.sample else "all",
            "start_index": self.options.start_index,
            "ties": self.ties,
            "seed": self.options.seed,
            "extenders": self.extenders,
            "plugins": self.plugins,
            "additions": additions,
            "warnings": warnings,
            "autoscaler": self.autoscaler,
            "now": self._now,
        }

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the arguments only; the copy computes its session anew."""
        settings = self._settings(self._additions, self._question_warnings)
        return partial(type(self), self.snapshot, **settings), ()

    def with_snapshot(self, snapshot: Snapshot, *, not_before: int | None = None) -> Self:
        """Return as `for_cluster` that of a changed cluster, which shares the columns of what stays the same."""
        other = self.for_cluster(snapshot, self._additions, self._question_warnings, not_before=not_before)
        other.shares_with = self if "session" in self.__dict__ else self.shares_with
        return other

    def with_pool(self, change: Pool) -> Self:
        """Return the base of the cluster whose autoscaler may add more."""
        from kplan.autoscaling.settings import with_change

        settings, snapshot = with_change(self.autoscaler, self.snapshot, change)
        other = self.with_snapshot(snapshot)
        other.autoscaler = settings
        return other

    def resolve(self, pods: Iterable[PodLike]) -> QuestionPods:
        """Return the pods of a question as rows.

        Raises NotFoundError when the snapshot has no such pod, and UsageError when a pod runs already, or has ended.
        """
        rows: list[int] = []
        added: list[PodInfo] = []
        origins: dict[int, Origin] = {}
        refused: dict[int, str] = {}
        more: dict[int, int] = {}
        first = len(self.session.cluster.pods)
        for pod in listed(pods):
            if isinstance(pod, str):
                rows.append(self._pending(pod))
                continue
            row = first + len(added)
            rows.append(row)
            added.append(PodInfo(self.as_stored(pod.pod if isinstance(pod, IncomingPod) else decode_pod(pod))))
            if isinstance(pod, IncomingPod):
                origins[row] = pod.origin
                if pod.refused:
                    refused[row] = pod.refused
                if pod.more:
                    more[row] = pod.more
        DistinctResources().share(added)  # equal pods share them from now on
        return QuestionPods(tuple(rows), tuple(added), origins, refused, more)

    @cached_property
    def pending(self) -> QuestionPods:
        """The pending pods of the snapshot."""
        keys = (pod.metadata.key for pod in self.objects.pods if not pod.spec.node_name)
        rows = (self.session.find(key) for key in keys)
        node_of = self.session.cluster.node_of
        return QuestionPods(tuple(sorted(row for row in rows if row is not None and node_of[row] == NOWHERE)))

    def queue_of(self, pods: Iterable[PodLike] | None, *, with_pending: bool = False) -> QuestionPods:
        """Return the pods of a scheduling queue, without duplicates; None for every pending pod of the snapshot.

        These can be added `with_pending`; beside other pods the question is not about them.
        """
        pending = self.pending.rows if pods is None or with_pending else ()
        return self.resolve(pods or ()).distinct(pending)

    def pending_keys(self) -> list[str]:
        """Return the pending pods of the snapshot as NAMESPACE/NAME."""
        infos = self.session.cluster.pods.infos
        return [infos[row].key for row in self.pending.rows]

    def info_of(self, question: QuestionPods, row: int) -> PodInfo:
        infos = self.session.cluster.pods.infos
        return infos[row] if row < len(infos) else question.added[row - len(infos)]

    def as_stored(self, obj: S) -> S:
        """Return an object without the fields whose feature gates are off in this release."""
        return drop((obj,), self._disabled_fields)[0]

    @cached_property
    def _disabled_fields(self) -> frozenset[GatedField]:
        counts_ports = self.release.rules.counts_ports_of_sidecars
        return disabled_fields(self.release.is_on, counts_ports_of_sidecars=counts_ports)

    def _pending(self, key: str) -> int:
        row = self.session.find(key)
        infos = self.session.cluster.pods.infos
        if row is None:
            if (pod := self.objects.pod_by_key.get(key)) and (error := has_ended(pod)):
                raise error
            raise no_pod(key, [info.key for info in infos], workloads_called(self.objects, key))
        if self.session.cluster.node_of[row] != NOWHERE or infos[row].pod.spec.node_name:
            raise UsageError(
                f"pod {key} already runs on node {infos[row].pod.spec.node_name}",
                hint=f"kplan explain {key} shows why it is there",
            )
        return row

    def fork(
        self, question: QuestionPods | None = None, listers: Listers | None = None, random: Random | None = None
    ) -> Session:
        """Return a fork of the session, with the new pods of a question.

        Other listers have the objects beside nodes and pods, and another source of draws may take the place of its own.
        """
        session = self.session.fork(listers, random=random)
        if question is not None:
            question.enter(session)
        return session


_BY_NAME = attrgetter("pod.metadata.namespace", "pod.metadata.name")
"""Among equal victims the order on the node decides, and the order in a file must not."""

_MAX_NEW = 1000  #: pods are reused one by one if at most this many are new, and at most half of all


def cluster_of(snapshot: Snapshot, origin: Cluster | None = None) -> Cluster:
    """Return a cluster with all pods that have not ended.

    The origin is one that this function returned and that has not changed since: its columns are reused for the nodes
    and pods that are the same objects.
    """
    if origin is not None:
        known = origin.pods.infos
        held, own = set(map(id, snapshot.pods)), {id(info.pod) for info in known}
        rows = [row for row, info in enumerate(known) if id(info.pod) in held]
        new = [PodInfo(pod) for pod in snapshot.pods if id(pod) not in own and pod.status.phase not in ENDED]
        if len(new) <= min(_MAX_NEW, (len(rows) + len(new)) // 2):
            infos = [known[row] for row in rows]
            new.sort(key=_BY_NAME)
            positions = [bisect_left(infos, _BY_NAME(info), key=_BY_NAME) for info in new]
            for place, info in zip(reversed(positions), reversed(new), strict=True):
                infos.insert(place, info)
            all_rows = np.insert(np.asarray(rows, np.intp), positions, NOWHERE)
            return origin.changed(origin.nodes.changed(snapshot.nodes), all_rows, infos)
    infos = [PodInfo(pod, key) for key, pod in snapshot.pod_by_key.items() if pod.status.phase not in ENDED]
    # Two stable sorts by a text each: one by pairs of texts takes twice as long. Most files are in order by namespace.
    infos.sort(key=lambda info: info.pod.metadata.name)
    infos.sort(key=lambda info: info.pod.metadata.namespace)
    return Cluster.build(NodeTable(snapshot.nodes), infos)
