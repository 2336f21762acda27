"""What workloads of a cluster are before anything happens: which replicas and runs are missing, and why.

Replicas are missing where the API server refuses their pods, for a quota or another rule of admission. Runs of cron
jobs pile up where more start while earlier ones wait for a node.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import UNSET, structs

from kplan.admission import Admitter
from kplan.admission.schedules import parse_schedule
from kplan.api.affinity import untolerated
from kplan.api.core import PersistentVolumeClaim, Pod
from kplan.api.kinds import POD_MAKERS
from kplan.api.meta import controller_of
from kplan.api.names import PodKey, WorkloadRef, controller_name, object_name
from kplan.api.pod import ENDED, PodMeta, PodSpec
from kplan.api.quantity import grouped
from kplan.api.time import seconds, to_micros, utc
from kplan.api.workloads import DaemonSet, Job
from kplan.cluster.base import Base
from kplan.course.answers.verdict import Happened
from kplan.course.beginning import begin
from kplan.course.simulation.loop import Simulation
from kplan.course.simulation.objects import eligible_nodes, ordinal_of
from kplan.course.simulation.owners import StatefulSetState
from kplan.course.task import Task
from kplan.diagnosis.intended import meant_labels, missing_name
from kplan.diagnosis.sentence import unmet_conditions
from kplan.documents.base import Counted
from kplan.engine.matching import is_hard
from kplan.engine.node_table import NodeTable
from kplan.facts import InputWarning, NodesLeftOut, QuotaRaise, RefusedPods
from kplan.health import workloads as w
from kplan.health.nodes import moment, nodes_health
from kplan.health.words import shortage_text
from kplan.plugins.node_affinity import unmet_by_node
from kplan.snapshot.model import Snapshot
from kplan.workloads.new_pods import stateful_claims, with_tolerations

RUNS_PILE_UP = "RunsPileUp"

_ALLOW = ("", "Allow")
_IN_PLACE = ("not-ready", "starting")  #: states of pods that have nodes and are not ready there
_WITH_PODS = frozenset({"ReplicaSet", "StatefulSet", "ReplicationController", "DaemonSet", "Job"})

_LATE_SECONDS = 2 * 60.0  #: a run that has not started so long after its time is missed


def workloads_at_present(base: Base, only: Collection[str] | None = None) -> tuple[w.WorkloadHealth, ...]:
    """Return what workloads of the cluster are at present, in the order of their kinds.

    `only`: KIND/NAMESPACE/NAME of those that are asked about; None for all that no other one of the cluster controls.
    """
    if only is not None and not only:
        return ()
    snapshot, everything = base.objects, dict(base.derived(_everything))
    for daemons in snapshot.daemon_sets:
        if only is not None and (key := f"DaemonSet/{daemons.metadata.key}") in only:
            left_out = _left_out(daemons, base.session.cluster.nodes)
            everything[key] = structs.replace(everything[key], left_out=left_out)

    def is_listed(health: w.WorkloadHealth) -> bool:
        above = snapshot.controllers.get(health.workload)
        # An operator may mean to keep what it made without pods, such as the replica set of a former revision.
        is_wrong = above is None or health.is_short or "pods-not-ready" in health.states
        return is_wrong and above not in everything

    return tuple(health for key, health in everything.items() if (is_listed(health) if only is None else key in only))


def _everything(base: Base) -> dict[str, w.WorkloadHealth]:
    """Return what all workloads are at present, by KIND/NAMESPACE/NAME."""
    snapshot = base.objects
    nodes = {
        f"DaemonSet/{daemons.metadata.key}": [
            name for name, answer in eligible_nodes(daemons.spec.template, snapshot.nodes).items() if answer.should_run
        ]
        for daemons in snapshot.daemon_sets
    }
    owners = snapshot.controllers
    pods = w.pods_health(snapshot, [pod for pod in snapshot.pods if controller_of(pod.metadata) is not None])
    everything = {health.workload: health for health in w.workloads_health(snapshot, {}, nodes, pods)}
    misses = {"misses-pods", "misses-nodes", "refused"}
    lacking = {key: health.missing for key, health in everything.items() if not misses.isdisjoint(health.states)}
    refused = _refused(base, lacking, owners)
    if refused:
        everything = {health.workload: health for health in w.workloads_health(snapshot, refused, nodes, pods)}

    return everything | dict(_with_runs(snapshot, everything))


def _with_runs(
    snapshot: Snapshot, everything: Mapping[str, w.WorkloadHealth]
) -> Iterator[tuple[str, w.WorkloadHealth]]:
    """Yield cron jobs of which a run holds up the next one beyond its time, or that have started none for some time."""
    now = moment(snapshot)
    jobs_of = grouped((controller_name(job.metadata), job) for job in snapshot.jobs)
    for cron_job in snapshot.cron_jobs:
        spec, key = cron_job.spec, object_name("CronJob", cron_job.metadata.namespace, cron_job.metadata.name)
        health, schedule, zone = everything[key], parse_schedule(spec.schedule), spec.time_zone or ""
        if now is None or schedule is None or "unknown-time-zone" in health.states:
            continue
        if health.holds_next:
            first = _first_active(jobs_of.get(key, ()), everything)
            since = None if first is None else first.metadata.creation_timestamp
            if first is None or since is None or (begun := seconds(since)) is None:
                continue
            due = schedule.next_after(utc(to_micros(since)), zone)
            if due is not None and due.timestamp() < now:
                run = w.ActiveRun(job=first.metadata.key, since=since, seconds=round(now - begun))
                yield key, structs.replace(health, states=(*health.states, "holds-next"), active_run=run)
            continue
        last = None if cron_job.status is None else cron_job.status.last_schedule_time
        if last is None or seconds(last) is None or "suspended" in health.states:
            continue
        due, runs = schedule.next_after(utc(to_micros(last)), zone), 0
        while due is not None and due.timestamp() + _LATE_SECONDS < now and runs < w.MOST_MISSED:
            runs, due = runs + 1, schedule.next_after(due, zone)
        if runs:
            deadline = UNSET if spec.starting_deadline_seconds is None else spec.starting_deadline_seconds
            missed = w.MissedRuns(runs=runs, last=last, deadline=deadline)
            yield key, structs.replace(health, states=(*health.states, "misses-runs"), missed_runs=missed)


def _first_active(jobs: Iterable[Job], everything: Mapping[str, w.WorkloadHealth]) -> Job | None:
    """Return the oldest of the runs of a cron job that has pods; None where none has any."""
    active = (job for job in jobs if everything[f"Job/{job.metadata.key}"].pods)
    return min(active, key=lambda job: (job.metadata.creation_timestamp or "", job.metadata.name), default=None)


def _left_out(daemons: DaemonSet, nodes: NodeTable) -> tuple[NodesLeftOut, ...]:
    """Return the nodes on which a daemon set wants no pod: its controller asks for labels, names and taints alone."""
    template = daemons.spec.template
    pod = with_tolerations(Pod(metadata=template.metadata, spec=template.spec))
    meant = {
        f"{key}={value}": "=".join(labels[0])
        for key, value in pod.spec.node_selector.items()
        if len(labels := meant_labels(key, value, nodes)) == 1
    }
    why: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for node in nodes.nodes:
        conditions = unmet_conditions(unmet_by_node(node, pod))
        taints = tuple(taint.text for taint in untolerated(pod.spec.tolerations, node.spec.taints) if is_hard(taint))
        if conditions or taints:
            why.setdefault((conditions, taints), []).append(node.metadata.name)
    groups = sorted(why.items(), key=lambda item: -len(item[1]))
    return tuple(
        NodesLeftOut(
            nodes=tuple(names),
            conditions=conditions,
            meant=tuple(meant[one] for one in conditions if one in meant),
            taints=taints,
        )
        for (conditions, taints), names in groups
    )


def workloads_of_task(base: Base, task: Task) -> tuple[w.WorkloadHealth, ...] | None:
    """Return what the workloads are at present of which a task tells that; None where it is about other pods alone."""
    if not task.is_queue or (task.tells_of is None and not task.is_about_all):
        return None
    return workloads_at_present(base, task.tells_of)


def at_present(snapshot: Snapshot, workloads: Iterable[w.WorkloadHealth], *, of_all: bool) -> w.AtPresent | None:
    """Return what is not well in a cluster whose workloads are as given, or only with these; None where all is well."""
    workloads = [health for health in workloads if not health.has_what_it_wants]
    if not of_all:
        return w.AtPresent(workloads=tuple(workloads)) if workloads else None
    own = [pod for pod in snapshot.pods if controller_of(pod.metadata) is None]
    present = w.AtPresent(
        nodes=tuple(node for _, node in sorted(nodes_health(snapshot).items()) if node.states or node.unusable),
        workloads=tuple(sorted(workloads, key=lambda health: not health.is_short)),
        pods=tuple(pod for _, pod in sorted(w.pods_health(snapshot, own).items()) if not pod.is_well),
    )
    return present if present.nodes or present.workloads or present.pods else None


def _refused(base: Base, missing: Mapping[str, int], owners: Mapping[str, str]) -> dict[str, RefusedPods]:
    """Return the workloads of which the API server refuses a pod now, and those that control them, with the reason.

    `missing`: how many pods workloads lack; `owners`: what controls workloads.
    """
    lacking = [key for key in missing if key.partition("/")[0] in _WITH_PODS]
    if not lacking:
        return {}
    simulation = _tried(base, lacking)
    specs = _specs(base.objects)
    facts: dict[str, RefusedPods] = {}
    wanted: list[tuple[Pod, int]] = []  # with their claims what quotas have to take until nothing is missing
    sets: list[StatefulSetState] = []
    for key in lacking:
        owner = simulation.workloads.owner(key)
        if owner is None or key not in specs:
            continue
        pod = Pod(metadata=PodMeta(namespace=owner.ref.namespace), spec=specs[key])
        if owner.refusal:
            because = simulation.maker.why_refused(pod)
            because = because or simulation.maker.why_claim_refused(owner.ref.path)
            because = because or RefusedPods(message=owner.refusal)
            if not because.by:
                because = structs.replace(because, lacks=missing_name(base.objects, pod, because.message) or UNSET)
            facts[key] = because
            if not because.uses:
                continue  # no quota lets them in
        wanted.append((pod, missing[key]))
        sets += [owner] if isinstance(owner, StatefulSetState) else []
    raises: dict[str, tuple[QuotaRaise, ...]] = {}
    if any(because.uses for because in facts.values()):
        raises = _raises(base, [*wanted, *_missing_claims(base.objects, sets)])
    refused: dict[str, RefusedPods] = {}
    for key, because in facts.items():
        above, namespace = key, WorkloadRef.parse(key).namespace
        while above and above not in refused:
            refused[above] = structs.replace(because, raises=raises.get(namespace, ()) if because.uses else ())
            above = owners.get(above, "")
    return refused


def _missing_claims(
    snapshot: Snapshot, owners: Iterable[StatefulSetState]
) -> Iterator[tuple[PersistentVolumeClaim, int]]:
    """Yield a claim of each template of stateful sets, without an ordinal in its name, and how many are missing."""
    sets = {stateful_set.metadata.key: stateful_set for stateful_set in snapshot.stateful_sets}
    ordinals = ((claim.metadata.key, ordinal_of(claim.metadata.name)) for claim in snapshot.persistent_volume_claims)
    named = ((key.removesuffix(f"-{ordinal}"), key, ordinal) for key, ordinal in ordinals if ordinal is not None)
    present = grouped((base, ordinal) for base, key, ordinal in named if base != key)  # their names have no leading 0
    for owner in owners:
        wanted = range(owner.wanted.start, owner.wanted.start + owner.wanted.replicas)
        pod = Pod(metadata=PodMeta(namespace=owner.ref.namespace, name=owner.ref.name))
        for claim in stateful_claims(sets[owner.ref.path], pod, snapshot, known=())[1]:
            yield claim, len(wanted) - sum(ordinal in wanted for ordinal in present.get(claim.metadata.key, ()))


def _tried(base: Base, workloads: Iterable[str]) -> Simulation:
    """Return the cluster after the controllers of some workloads have tried to make the pods that they lack."""
    simulation = begin(base)
    for key in workloads:
        simulation.enqueue_called(key)
    simulation.controllers.run()
    return simulation


def _specs(snapshot: Snapshot) -> dict[str, PodSpec]:
    """Return the pod specs of the workloads that make pods."""
    return {
        object_name(kind, obj.metadata.namespace, obj.metadata.name): obj.spec.template.spec
        for kind in _WITH_PODS
        for obj in getattr(snapshot, POD_MAKERS[kind].attribute)
        if obj.spec.template is not None
    }


def _raises(
    base: Base, missing: Sequence[tuple[Pod | PersistentVolumeClaim, int]]
) -> dict[str, tuple[QuotaRaise, ...]]:
    """Return what quotas have to allow so that they take pods and claims, so many of each, by namespace."""
    admitter = Admitter(base.objects, minor=base.release.number)
    pods = [(admitter.admit(item).pod if isinstance(item, Pod) else item, number) for item, number in missing]
    raises: dict[str, tuple[QuotaRaise, ...]] = {}
    for raised in Admitter(base.objects, minor=base.release.number).quotas.lacking(pods):
        namespace = PodKey.parse(raised.quota).namespace
        raises[namespace] = (*raises.get(namespace, ()), raised)
    return raises


def short_workloads(workloads: Iterable[w.WorkloadHealth], end: Simulation | None = None) -> tuple[InputWarning, ...]:
    """Return a warning for each of some workloads that has too few pods, and whose controller makes no more.

    `end`: the cluster after controllers have gone on with these workloads; None where they have not.
    """
    short = (health for health in workloads if _stays_short(health, end))
    return tuple(InputWarning(w.MISSING_REPLICAS, health.workload, shortage_text(health)) for health in short)


def _stays_short(health: w.WorkloadHealth, end: Simulation | None) -> bool:
    if not health.is_short or "misses-pods" in health.states:
        return False
    workload = None if end is None else end.workloads.find(health.workload)
    if workload is None or any(pod.pod == health.waits_for and pod.state in _IN_PLACE for pod in health.troubled):
        return True  # a pod with a node for which others wait is not said to become ready
    pods = [pod for owner in workload.owners for pod in owner.pods.values()]
    return sum(not pod.is_terminating for pod in pods) < workload.desired


def happened_before(workloads: Sequence[w.WorkloadHealth], end: Simulation | None = None) -> Iterator[Happened]:
    """Yield what is wrong with workloads before anything happens, and does not heal when their pods have nodes.

    `end`: as for `short_workloads`.
    """
    wrong = [Counted(health.workload, w.MISSING_REPLICAS) for health in workloads if _stays_short(health, end)]
    wrong += [Counted(health.workload, "Stuck") for health in workloads if health.is_stuck]
    yield from map(Happened, wrong)


def piled_up(snapshot: Snapshot, only: Collection[str] | None = None) -> Iterator[InputWarning]:
    """Yield a warning for each cron job of which a run waits for a node while others are active.

    `only`: NAMESPACE/NAME of pods of which one has to wait; None for all.
    """
    allowing = {cron_job.metadata.key for cron_job in snapshot.cron_jobs if cron_job.spec.concurrency_policy in _ALLOW}
    if not allowing:
        return
    run_of = {
        job.metadata.key: f"{job.metadata.namespace}/{owner.name}"
        for job in snapshot.jobs
        if (owner := controller_of(job.metadata)) is not None and owner.kind == "CronJob"
    }
    active: dict[str, set[str]] = {}
    waiting: dict[str, dict[str, str]] = {}  # cron job -> job -> one of its pods
    for pod in snapshot.pods:
        owner = controller_of(pod.metadata)
        if owner is None or owner.kind != "Job" or pod.status.phase in ENDED or pod.metadata.deletion_timestamp:
            continue
        job = f"{pod.metadata.namespace}/{owner.name}"
        cron_job = run_of.get(job, "")
        if cron_job in allowing:
            active.setdefault(cron_job, set()).add(job)
            if not pod.spec.node_name:
                waiting.setdefault(cron_job, {})[job] = pod.metadata.key
    for cron_job, jobs in waiting.items():
        number = len(active[cron_job])
        if number > 1 and (only is None or not set(jobs.values()).isdisjoint(only)):
            yield InputWarning(
                RUNS_PILE_UP,
                f"CronJob/{cron_job}",
                f"{number} of its runs are active at once, {len(jobs)} of them without a node: with concurrencyPolicy: "
                "Forbid none starts while another is active, and with Replace it ends the one before",
            )
