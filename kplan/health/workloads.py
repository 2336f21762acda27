"""What a workload is at this moment: whether it has the pods that it wants, and what holds it up."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from kplan.api.core import Pod, ReplicationController, WorkloadCondition, target_of
from kplan.api.kinds import POD_MAKERS
from kplan.api.labels import REVISION_HASH, TEMPLATE_GENERATION, parse_int64
from kplan.api.names import WorkloadRef, controller_name, object_name
from kplan.api.pod import ENDED
from kplan.api.quantity import grouped, natural
from kplan.api.time import is_time_zone
from kplan.api.workloads import ON_DELETE, CronJob, DaemonSet, Deployment, Job, ReplicaSet, StatefulSet
from kplan.facts import Count, Document, NodesLeftOut, Positive, RefusedPods
from kplan.health.nodes import NodeHealth, moment, nodes_health
from kplan.health.pods import PodHealth, pod_health
from kplan.snapshot.model import Snapshot

WorkloadState = Literal[
    "unknown-time-zone",
    "suspended",
    "failed",
    "complete",
    "scaled-to-zero",
    "refused",
    "waits-for-pod",
    "waits-for-deletion",
    "misses-pods",
    "misses-nodes",
    "rollout-refused",
    "progress-deadline",
    "update-held",
    "paused",
    "pods-not-ready",
    "pods-pending",
    "resize-pending",
    "at-maximum",
    "no-metrics",
    "last-run-failed",
    "holds-next",
    "misses-runs",
]
"""What a workload can be besides well, in the order in which it is told."""

SHORT_STATES: frozenset[WorkloadState] = frozenset(
    {"refused", "waits-for-pod", "waits-for-deletion", "misses-pods", "misses-nodes"}
)
"""The states of a workload that has fewer pods than it wants."""

MAY_REFUSE = (
    "MutatingAdmissionPolicy",
    "MutatingWebhookConfiguration",
    "ValidatingAdmissionPolicy",
    "ValidatingWebhookConfiguration",
)
"""Kinds by which pods may be refused, and which nothing here evaluates."""
MISSING_REPLICAS = "MissingReplicas"  #: the rule for a workload that has too few pods, and the code of its warning
_MISSES = frozenset({"misses-pods", "misses-nodes"})
_KUEUE = "kueue.x-k8s.io/queue-name"  #: the label of what Kueue starts
_SAYS_REFUSED = (Deployment, ReplicaSet, ReplicationController)
_FAILED = ("failed", "evicted")
MOST_MISSED = 100  #: so many missed runs of a CronJob are counted
_MOST_TROUBLED, _MOST_EVICTED = 50, 10  # the last ones: a workload that fails all the time has any number of them
_MANY_RESTARTS = 3


class HeldUpdate(Document, frozen=True, kw_only=True):
    """Pods of a StatefulSet or DaemonSet that keep a former revision."""

    pods: Count  #: how many
    next: str  #: NAMESPACE/NAME of the one that is replaced first
    #: what keeps them: the updateStrategy, the partition, or a pod that is not ready, of them or of the new revision
    because: Literal["OnDelete", "partition", "not-ready", "update-not-ready"]
    partition: Count = 0  #: the first number of a pod that is updated
    waits_for: str = ""  #: NAMESPACE/NAME of the pod of the new revision that is not ready; empty for none
    is_ordered: bool = False  #: that pod is not replaced either before it is ready, whatever becomes of the template


class ActiveRun(Document, frozen=True, kw_only=True):
    """A run of a CronJob that is active beyond the time of the next one."""

    job: str  #: NAMESPACE/NAME
    since: str | None  #: RFC 3339
    seconds: Count  #: for how long it is active


class MissedRuns(Document, frozen=True, kw_only=True):
    """Runs of a CronJob that were due by its schedule, and that its controller has not started."""

    runs: Positive  #: how many; of many no more than the first
    last: str  #: RFC 3339: for when the last one was started
    #: within how many seconds one has to be started; absent where it may be late
    deadline: Count | UnsetType = UNSET


class WorkloadHealth(Document, frozen=True, kw_only=True):
    """What a workload is at present."""

    workload: str  #: KIND/NAMESPACE/NAME
    #: pods that it should have; for a DaemonSet those of its nodes, for a Job those that run at a time
    wanted: Count = 0
    pods: Count = 0  #: those that it has, without those that have ended or are being deleted
    #: ready, pending, leaving: how many are ready, have no node, are being deleted
    ready: Count = 0
    pending: Count = 0
    leaving: Count = 0
    states: tuple[WorkloadState, ...] = ()  #: empty for a workload that is well
    #: of the condition that says so: ProgressDeadlineExceeded, BackoffLimitExceeded, FailedGetResourceMetric
    reason: str = ""
    since: str | None = None  #: RFC 3339: since when; null if unknown
    refused: RefusedPods = RefusedPods()  #: for `refused` and `rollout-refused`
    #: kind -> how many webhooks and policies there are that may refuse pods that are missing, and are not evaluated
    unevaluated: dict[str, Count] = {}
    waits_for: str = ""  #: the pod that comes before those that are missing
    missed_nodes: tuple[str, ...] = ()  #: of a DaemonSet, by name
    #: where a DaemonSet wants no pod, the most nodes first; absent for what is no DaemonSet, or is not asked about
    left_out: tuple[NodesLeftOut, ...] | UnsetType = UNSET
    held_update: HeldUpdate | UnsetType = UNSET  #: for `update-held`; absent for none
    troubled: tuple[PodHealth, ...] = ()  #: its pods that are not well, the first of them
    #: of those that are ready the one that has restarted most often, from three times on; absent for none
    restarted: PodHealth | UnsetType = UNSET
    #: of those that show as ready the first on nodes that do not answer; absent for none
    silent: tuple[PodHealth, ...] | UnsetType = UNSET
    evicted: tuple[PodHealth, ...] = ()  #: pods that the kubelet evicted and that are still listed, the last of them
    resizing: tuple[PodHealth, ...] = ()  #: pods whose resize in place is not carried out, the first of them
    queue: str = ""  #: of Kueue, which starts a suspended Job when it admits it
    failed_indexes: str = ""  #: of a Job with indexes, such as 1,3-5
    failed_run: str = ""  #: of a CronJob, NAMESPACE/NAME of its last run, where that has failed for `reason`
    time_zone: str = ""  #: of a CronJob, where nobody knows it, so that no run starts
    active_run: ActiveRun | UnsetType = UNSET  #: of a CronJob, for `holds-next`; absent for none
    missed_runs: MissedRuns | UnsetType = UNSET  #: of a CronJob, for `misses-runs`; absent for none
    holds_next: bool = False  #: a run of a CronJob is active, and with concurrencyPolicy Forbid no other one starts
    autoscaler: str = ""  #: HorizontalPodAutoscaler/NAMESPACE/NAME, where it says something
    most_replicas: Count = 0  #: of that autoscaler

    @property
    def ref(self) -> WorkloadRef:
        return WorkloadRef.parse(self.workload)

    @property
    def has_what_it_wants(self) -> bool:
        """Whether nothing is left to do about it but to find nodes for its pods."""
        return not set(self.states) - {"complete", "scaled-to-zero", "pods-pending"}

    @property
    def missing(self) -> int:
        """How many pods it has fewer than it wants."""
        return max(self.wanted - self.pods, 0)

    @property
    def is_short(self) -> bool:
        """Whether it has fewer pods than it wants."""
        return not SHORT_STATES.isdisjoint(self.states)

    @property
    def is_stuck(self) -> bool:
        """Whether its rollout has given up on pods that have a node and do not become ready there."""
        return {"progress-deadline", "pods-not-ready"} <= set(self.states)


class AtPresent(Document, frozen=True, kw_only=True):
    """What is not well in a cluster before anything happens, besides pods that only wait for a node."""

    nodes: tuple[NodeHealth, ...] = ()
    workloads: tuple[WorkloadHealth, ...] = ()  #: those that no other one controls, the ones with too few pods first
    pods: tuple[PodHealth, ...] = ()  #: those without a workload


def workloads_health(
    snapshot: Snapshot,
    refused: Mapping[str, RefusedPods],
    wanted_nodes: Mapping[str, Sequence[str]],
    of: Mapping[str, PodHealth],
) -> Iterator[WorkloadHealth]:
    """Yield what each workload is, whether another one controls it or not.

    `refused`: workloads whose pods the API server refuses, by KIND/NAMESPACE/NAME. `wanted_nodes`: the nodes on which a
    DaemonSet wants a pod. `of`: what each pod is that has a controller.
    """
    members = _members(snapshot)
    limited, held = namespaces_with_quotas(snapshot), snapshot.skipped
    scalers = {
        object_name(target.kind, scaler.metadata.namespace, target.name): scaler
        for scaler in snapshot.horizontal_pod_autoscalers
        for target in [scaler.spec.scale_target_ref]
    }
    of_sets = {  # Deployments say what their replica sets do, a little later
        snapshot.controllers.get(f"ReplicaSet/{own.metadata.key}"): refused_before(own, limited)
        for own in snapshot.replica_sets
        if own.spec.replicas != 0
    }
    runs: dict[str, list[tuple[str, WorkloadHealth]]] = {}  # those of cron jobs, whose kind comes last
    for name, kind in POD_MAKERS.items():
        for obj in sorted(getattr(snapshot, kind.attribute), key=lambda obj: obj.metadata.key):
            key = object_name(name, obj.metadata.namespace, obj.metadata.name)
            own = members.get(key, ())
            health = _of_pods(key, own, of, keeps_failed=name == "Job")
            because = refused.get(key) or refused_before(obj, limited) or of_sets.get(key)
            health = _with_states(health, obj, because, wanted_nodes.get(key), own)
            if not _MISSES.isdisjoint(health.states) and "refused" not in health.states:
                health = replace(health, unevaluated={kind: held[kind] for kind in MAY_REFUSE if kind in held})
            if name == "Job":
                begun = obj.metadata.creation_timestamp or ""
                runs.setdefault(controller_name(obj.metadata), []).append((begun, health))
            elif name == "CronJob" and (last := max(runs.get(key, ()), key=_when, default=None)) is not None:
                health = _after_run(health, last[1])
            yield _scaled(health, scalers.get(key))


def pods_health(snapshot: Snapshot, pods: Sequence[Pod] | None = None) -> dict[str, PodHealth]:
    """Return what pods of a snapshot are, by NAMESPACE/NAME: all, or the given ones."""
    chosen = snapshot.pods if pods is None else pods
    if not chosen:
        return {}
    nodes, now = nodes_health(snapshot), moment(snapshot)
    return {pod.metadata.key: pod_health(pod, nodes, now, snapshot) for pod in chosen}


def _members(snapshot: Snapshot) -> dict[str, list[Pod]]:
    """Return the pods of each workload, those of workloads below it included."""
    return grouped((key, pod) for pod in snapshot.pods for key in workloads_above(pod, snapshot.controllers))


def workloads_above(pod: Pod, controllers: Mapping[str, str]) -> Iterator[str]:
    """Yield the controller of the pod, the controller of that, and so on, until none is left or one repeats."""
    key, passed = controller_name(pod.metadata), set[str]()
    while key and key not in passed:
        yield key
        passed.add(key)
        key = controllers.get(key, "")


def _of_pods(key: str, own: Iterable[Pod], of: Mapping[str, PodHealth], *, keeps_failed: bool) -> WorkloadHealth:
    pods = [of[pod.metadata.key] for pod in own]
    unwell = (pod for pod in own if not of[pod.metadata.key].is_well)
    in_order = sorted(unwell, key=lambda pod: (pod.metadata.creation_timestamp or "", pod.metadata.name))
    troubled = [of[pod.metadata.key] for pod in in_order]
    living = [pod for pod in pods if pod.state not in ("being-deleted", "succeeded", "failed", "evicted")]
    ready = [pod for pod in living if pod.state == "ready"]
    restarting = [pod for pod in ready if _n_restarts(pod) >= _MANY_RESTARTS]
    return WorkloadHealth(
        workload=key,
        pods=len(living),
        ready=len(ready),
        pending=sum(pod.state in ("pending", "gated") for pod in living),
        leaving=sum(pod.state == "being-deleted" for pod in pods),
        restarted=min(restarting, key=lambda pod: (-_n_restarts(pod), pod.pod), default=UNSET),
        silent=tuple(pod for pod in ready if "unreachable" in (pod.node_states or ()))[:_MOST_TROUBLED] or UNSET,
        evicted=tuple(pod for pod in troubled if pod.state == "evicted")[-_MOST_EVICTED:],
        resizing=tuple(pod for pod in living if pod.resize is not UNSET)[:_MOST_TROUBLED],
        troubled=tuple(pod for pod in troubled if keeps_failed or pod.state not in _FAILED)[-_MOST_TROUBLED:],
    )


def _n_restarts(pod: PodHealth) -> int:
    return pod.container.restarts if pod.container else 0


def _with_states(
    health: WorkloadHealth, obj: Any, refused: RefusedPods | None, nodes: Sequence[str] | None, own: Sequence[Pod]
) -> WorkloadHealth:
    """Return a workload with its states, in the order in which they are told, and what belongs to them."""
    if isinstance(obj, CronJob):
        return _of_cron_job(health, obj)
    health = _with_wanted(health, obj, nodes, own)
    states, changes = [*health.states], dict[str, Any]()
    if isinstance(obj, Job) and states:  # it starts no more pods
        return health
    if health.missing and refused is not None:
        states.append("refused")
        changes["refused"] = refused
    elif health.missing and not isinstance(obj, DaemonSet):
        state, changes["waits_for"] = _why_missing(obj, health, own)
        states.append(state)
    if isinstance(obj, Deployment):
        if refused is not None and not health.missing:
            states.append("rollout-refused")
            changes["refused"] = refused
        condition = _condition(obj.status.conditions, "Progressing", "False")
        if condition is not None and condition.reason == "ProgressDeadlineExceeded":
            states.append("progress-deadline")
            changes |= {"reason": condition.reason, "since": condition.last_transition_time}
        states += ["paused"] if obj.spec.paused else []
    held = _held_update(obj, own, health)
    changes["held_update"] = held or UNSET
    states += ["update-held"] if held and not held.waits_for else []
    states += ["pods-pending"] if health.pending else []
    if any(pod.is_late or pod.state not in ("starting", *_FAILED) for pod in health.troubled):
        states.append("pods-not-ready")
    states += ["update-held"] if held and held.waits_for else []  # for a pod that was just told of
    states += ["resize-pending"] if health.resizing else []
    return replace(health, states=tuple(states), **changes)


def _of_cron_job(health: WorkloadHealth, obj: CronJob) -> WorkloadHealth:
    zone = obj.spec.time_zone or ""
    unknown = "" if is_time_zone(zone) else zone  # upstream: cronjob_controllerv2.go syncCronJob
    is_so: dict[WorkloadState, object] = {
        "unknown-time-zone": unknown,
        "suspended": obj.spec.suspend,
        "pods-pending": health.pending,
    }
    states = tuple(state for state, holds in is_so.items() if holds)
    holds_next = obj.spec.concurrency_policy == "Forbid" and health.pods > 0
    return replace(health, states=states, troubled=(), holds_next=holds_next, time_zone=unknown)


def _with_wanted(health: WorkloadHealth, obj: Any, nodes: Sequence[str] | None, own: Sequence[Pod]) -> WorkloadHealth:
    """Return a workload with how many pods it wants, and the states that follow from that alone."""
    if isinstance(obj, Job):
        return _of_job(health, obj)
    if isinstance(obj, DaemonSet):
        there = {target_of(pod) for pod in own if pod.status.phase not in ENDED}
        missed = tuple(sorted(set(nodes or ()) - there))
        wanted = health.pods if nodes is None else len(nodes)
        return replace(health, wanted=wanted, missed_nodes=missed, states=("misses-nodes",) if missed else ())
    wanted = 1 if obj.spec.replicas is None else max(obj.spec.replicas, 0)
    return replace(health, wanted=wanted, states=() if wanted else ("scaled-to-zero",))


def namespaces_with_quotas(snapshot: Snapshot) -> frozenset[str]:
    return frozenset(quota.metadata.namespace for quota in snapshot.resource_quotas)


def refused_before(obj: Any, limited: Collection[str]) -> RefusedPods | None:
    """Return that the API server has refused pods of a workload, as far as that says; None where it does not.

    `limited`: namespaces with quotas, which say more than what was before where only that is known.
    """
    failure = _condition(obj.status.conditions, "ReplicaFailure", "True") if isinstance(obj, _SAYS_REFUSED) else None
    if failure is None or (not failure.message and obj.metadata.namespace in limited):
        return None
    return RefusedPods(message=failure.message, reason=failure.reason, since=failure.last_transition_time)


_JOB_ENDS: tuple[tuple[str, WorkloadState], ...] = (
    ("Failed", "failed"),
    ("FailureTarget", "failed"),
    ("Complete", "complete"),
    ("SuccessCriteriaMet", "complete"),
)
"""Conditions of a job that starts no more pods."""


def _of_job(health: WorkloadHealth, job: Job) -> WorkloadHealth:
    spec, conditions = job.spec, job.status.conditions
    health = replace(health, failed_indexes=job.status.failed_indexes)
    for kind, state in _JOB_ENDS:
        if (condition := _condition(conditions, kind, "True")) is not None:
            return replace(health, states=(state,), reason=condition.reason, since=condition.last_transition_time)
    if spec.suspend:
        condition = _condition(conditions, "Suspended", "True")
        since = None if condition is None else condition.last_transition_time
        return replace(health, states=("suspended",), since=since, queue=job.metadata.labels.get(_KUEUE, ""))
    parallelism = 1 if spec.parallelism is None else max(spec.parallelism, 0)
    left = parallelism if spec.completions is None else max(spec.completions - job.status.succeeded, 0)
    return replace(health, wanted=min(parallelism, left))


def _why_missing(obj: Any, health: WorkloadHealth, own: Sequence[Pod]) -> tuple[WorkloadState, str]:
    """Return why a workload has too few pods, and the pod for which the others wait."""
    if not isinstance(obj, StatefulSet):
        return "misses-pods", ""
    leaving = sorted(pod.metadata.key for pod in own if pod.metadata.deletion_timestamp is not None)
    if leaving:
        return "waits-for-deletion", leaving[0]
    if obj.spec.pod_management_policy in ("", "OrderedReady"):
        not_ready = {pod.pod for pod in health.troubled} | {pod.metadata.key for pod in own if not pod.spec.node_name}
        if not_ready:
            return "waits-for-pod", min(not_ready, key=lambda key: (len(key), key))
    return "misses-pods", ""


def _held_update(obj: Any, own: Sequence[Pod], health: WorkloadHealth) -> HeldUpdate | None:
    """Return which pods keep a former revision, and why; None where the controller goes on, or has no revisions."""
    living = [pod for pod in own if pod.metadata.deletion_timestamp is None]
    match obj:
        case StatefulSet():
            return _held_stateful(obj, living, health)
        case DaemonSet() if obj.spec.update_strategy.type == ON_DELETE:
            return _left_old(living)
        case _:
            return None


def _held_stateful(obj: StatefulSet, living: Sequence[Pod], health: WorkloadHealth) -> HeldUpdate | None:
    """Return which pods of a stateful set keep a former revision, and why; None where its controller goes on.

    With OrderedReady no pod is replaced while one is not ready, even the one that is to be replaced; with Parallel none
    while one of the new revision is not ready.
    Upstream: stateful_set_control.go updateStatefulSet.
    """
    strategy, update = obj.spec.update_strategy, obj.status.update_revision
    rolling = strategy.rolling_update
    partition = (rolling and rolling.partition) or 0
    start = obj.spec.ordinals.start if obj.spec.ordinals else 0
    old = (pod for pod in living if update and pod.metadata.labels.get(REVISION_HASH, update) != update)
    names = ((pod.metadata.name.rpartition("-")[2], pod.metadata.key) for pod in old)
    outdated = {number: key for text, key in names if (number := natural(text, 2**31 - 1)) is not None}
    if not outdated:
        return None
    held = HeldUpdate(pods=len(outdated), next=outdated[max(outdated)], because="OnDelete")
    if strategy.type == ON_DELETE:
        return held
    if max(outdated) < start + partition:
        return replace(held, because="partition", partition=start + partition)
    unwell = [pod.pod for pod in health.troubled]
    is_ordered = obj.spec.pod_management_policy in ("", "OrderedReady")
    reached = sorted(number for number in outdated if number >= start + partition)
    stuck = [outdated[number] for number in reached if outdated[number] in unwell]
    if stuck and is_ordered:
        return replace(held, because="not-ready", next=stuck[0])
    keys = outdated.values()
    broken = [one.pod for one in health.troubled if one.state == "not-ready" and one.pod not in keys]
    if reached and broken:
        return replace(held, because="update-not-ready", waits_for=broken[0], is_ordered=is_ordered)
    return None


def _left_old(living: Sequence[Pod]) -> HeldUpdate | None:
    """Return which pods of a daemon set keep a former template until somebody deletes them; None for none.

    Which is the newest is read off the pods, as of metadata of daemon sets annotations are not kept: of a template that
    no pod has nothing is told.
    """
    labels = {pod.metadata.key: pod.metadata.labels.get(TEMPLATE_GENERATION, "") for pod in living}
    generations = {key: parse_int64(label) or 0 for key, label in labels.items()}
    newest = max(generations.values(), default=0)
    old = sorted(key for key, generation in generations.items() if generation < newest)
    return HeldUpdate(pods=len(old), next=old[0], because="OnDelete") if old else None


def _when(run: tuple[str, WorkloadHealth]) -> tuple[str, str]:
    return run[0], run[1].workload


def _after_run(health: WorkloadHealth, last: WorkloadHealth) -> WorkloadHealth:
    """Return what a cron job is after its last run."""
    if "failed" not in last.states:
        return health
    states = (*health.states, "last-run-failed")
    return replace(health, states=states, failed_run=last.ref.path, reason=last.reason)


def _scaled(health: WorkloadHealth, scaler: Any) -> WorkloadHealth:
    """Return what a workload is with what its autoscaler says."""
    if scaler is None:
        return health
    conditions, most = scaler.status.conditions, max(scaler.spec.max_replicas, 0)
    name = object_name("HorizontalPodAutoscaler", scaler.metadata.namespace, scaler.metadata.name)
    blind = _condition(conditions, "ScalingActive", "False") or _condition(conditions, "AbleToScale", "False")
    limited = _condition(conditions, "ScalingLimited", "True")
    if blind is not None and blind.reason != "ScalingDisabled":
        changes = {"states": (*health.states, "no-metrics"), "reason": health.reason or blind.reason}
    elif (limited is not None and limited.reason == "TooManyReplicas") or (
        not conditions and most and scaler.status.desired_replicas >= most > (scaler.spec.min_replicas or 1)
    ):
        changes = {"states": (*health.states, "at-maximum")}
    else:
        return health
    return replace(health, autoscaler=name, most_replicas=most, **changes)


def _condition(conditions: Iterable[WorkloadCondition], kind: str, status: str) -> WorkloadCondition | None:
    return next((one for one in conditions if (one.type, one.status) == (kind, status)), None)
