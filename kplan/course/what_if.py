"""What if: the changed cluster, which shares the parts that do not change.

Where pods leave because of a change, their controllers create others, as pending pods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import replace

from kplan.admission.limits import with_usage
from kplan.api.core import Pod
from kplan.api.kinds import POD_MAKERS, PODS_FIELD, Kind, by_kind_and_name
from kplan.api.meta import controller_of
from kplan.api.workloads import PodDisruptionBudget, PodDisruptionBudgetStatus
from kplan.changes import values as c
from kplan.changes.base import ChangeBase
from kplan.changes.limits import LoosenBudget, RaiseQuota
from kplan.cluster.base import Base
from kplan.cluster.incoming import with_objects
from kplan.cluster.workload_pods import Reference, find, name_of, parse_reference
from kplan.course import edits
from kplan.course.beginning import begin, carry_on
from kplan.course.provisioning import growth_of
from kplan.course.resizing import Recommendations, read_recommendations, resized
from kplan.course.simulation.durations import LAG
from kplan.course.simulation.loop import Simulation, start
from kplan.course.simulation.owners import DeploymentState, StatefulSetState
from kplan.course.snapshots import has_its_pod, snapshot_of, with_budget_statuses
from kplan.documents.change import StepEvent
from kplan.errors import UsageError
from kplan.facts import ClusterChange, InputWarning
from kplan.framework.listers import key_of
from kplan.rules.volumes import claims_of
from kplan.snapshot.build import reference_warnings
from kplan.snapshot.model import Snapshot
from kplan.workloads.merging import whole_object


class Followed(NamedTuple):
    """A changed cluster, in which controllers have done their part."""

    snapshot: Snapshot
    change: ClusterChange  #: what was done
    #: when its youngest pods were made, microseconds since 1970: time goes on while pods back off; 0 for none
    moment: int = 0


def with_replicas(base: Base, which: Reference, replicas: int) -> Followed:
    """Return the snapshot with workloads scaled, after their controllers created or deleted pods.

    New pods are pending; a later question schedules them.

    Raises NotFoundError when no workload has this name, and UsageError for a kind that has no replicas.
    """
    kind = which.kind
    if kind.name not in PODS_FIELD:
        kinds = ", ".join(map(str.lower, PODS_FIELD))
        raise UsageError(f"{which.text}: a {kind.name} has no number of replicas", hint=f"use {kinds}")
    objects = find(which, base.snapshot)
    rewritten = _scaled(base.snapshot, kind, objects, replicas)
    simulation = begin_controllers(base, rewritten)
    names = list(map(name_of, objects))
    for key in names:
        owner = simulation.workloads.find(key)
        if owner is not None:
            simulation.enqueue(owner)
    simulation.controllers.run()
    after = snapshot_of(simulation, rewritten, with_leaving=True)
    return Followed(after, edits.entry_of("scale", f"{which.text}={replicas}", names))


def begin_controllers(base: Base, snapshot: Snapshot) -> Simulation:
    """Return a simulation of a changed cluster for its controllers alone: no pending pod is queued."""
    other = base.with_snapshot(snapshot)
    return start(other.session_for(other.objects), other.objects, tries_pending=False)


def settled(base: Base, *, retries: bool = False) -> Followed:
    """Return the cluster after all controllers and the scheduler worked until nothing moved.

    `retries`: the scheduler tries every pending pod, also those that nothing has helped since it tried them.
    """
    simulation = begin(base)
    carry_on(simulation, base.snapshot, simulation.workloads.keys())
    simulation.try_untried()
    if retries:
        simulation.retry_pending()
    simulation.run()
    after = _within_bounds(snapshot_of(simulation, base.snapshot), simulation)
    moved = dict.fromkeys(f"Pod/{step.pod}" for step in simulation.log.steps if step.pod)
    after = _with_reserved(after, simulation)
    if growth := growth_of(simulation):
        after = with_objects(after, [obj for new in growth.adds for obj in (new.node, *new.objects)])
    after = replace(after, warnings=(*after.warnings, *_unsettled(simulation, after)))
    return followed(simulation, after, edits.entry_of("settle", "", list(moved)))


def followed(simulation: Simulation, after: Snapshot, change: ClusterChange) -> Followed:
    return Followed(after, change, int((simulation.now + LAG) * 1_000_000))


def _within_bounds(snapshot: Snapshot, simulation: Simulation) -> Snapshot:
    for key in simulation.bounds:
        state = simulation.workloads.find(key)
        if not isinstance(state, DeploymentState | StatefulSetState):
            continue
        kind, replicas = POD_MAKERS[state.ref.kind], state.wanted.replicas
        present: tuple[Any, ...] = snapshot.objects(kind.attribute)
        own = (obj for obj in present if obj.metadata.key == state.ref.path)
        other = [obj for obj in own if (1 if obj.spec.replicas is None else obj.spec.replicas) != replicas]
        snapshot = _scaled(snapshot, kind, other, replicas)
    return snapshot


def _scaled(snapshot: Snapshot, kind: Kind, objects: Sequence[Any], replicas: int) -> Snapshot:
    """Return the snapshot with another number of replicas of some of its objects, also where these are held whole."""
    field, whole = PODS_FIELD[kind.name], dict(snapshot.whole)
    for key in map(name_of, objects):
        content = whole_object(snapshot, key)
        if content is not None:
            whole[key] = {**content, "spec": {**content.get("spec", {}), field: replicas}}
    scaled = [replace(obj, spec=replace(obj.spec, **{field: replicas})) for obj in objects]
    return replace(edits.with_updated(snapshot, kind.attribute, scaled), whole=whole) if scaled else snapshot


def _unsettled(simulation: Simulation, snapshot: Snapshot) -> Iterable[InputWarning]:
    """Yield warnings about pods whose volumes or devices are missing from the snapshot of a settled cluster."""
    if simulation.circle:
        yield InputWarning("EvictionCycle", "", simulation.circle)
    volume_of = {key_of(claim): claim.spec.volume_name for claim in snapshot.persistent_volume_claims}
    infos = simulation.infos
    unnamed = simulation.session.reserved_objects().unnamed
    for row, observed in simulation.pods.items():
        pod = infos[row].pod
        if not observed.node or pod.spec.node_name:
            continue
        missing = [name for name in claims_of(pod) if not volume_of.get((infos[row].namespace, name))]
        if missing:
            message = f"settled, but the snapshot does not hold the volumes made for its claims: {', '.join(missing)}"
            yield InputWarning("UnsettledClaims", f"Pod/{observed.key}", message)
        if (pod.metadata.uid or infos[row].key) in unnamed:
            message = "settled, but the devices of its extended resources count as free, because no claim names them"
            yield InputWarning("UnsettledClaims", f"Pod/{observed.key}", message)


def _with_reserved(snapshot: Snapshot, simulation: Simulation) -> Snapshot:
    """Return the snapshot with the claims and volumes that plugins reserved; unchanged objects keep their place."""
    newer = by_kind_and_name(simulation.session.reserved_objects().objects)
    uids = {pod.metadata.uid for pod in snapshot.pods}
    for attribute, objects in newer.items():
        snapshot = edits.with_updated(snapshot, attribute, objects.values())
        there = set(map(key_of, getattr(snapshot, attribute)))
        fresh = [obj for key, obj in objects.items() if key not in there and has_its_pod(obj, uids)]
        snapshot = with_objects(snapshot, fresh)
    return snapshot


Keys = frozenset[str]  #: NAMESPACE/NAME of pods


def without(base: Base, which: Reference) -> Followed:
    """Return the snapshot without objects, after controllers recreated the pods that are lost with their nodes.

    Pods that are deleted otherwise are not recreated; the jobs of such pods count them as failed. Raises NotFoundError
    when no object has this name.
    """
    removal = edits.removed(base.snapshot, which)
    jobs = {job.metadata.key for job in removal.after.jobs}
    owners = ((pod, controller_of(pod.metadata)) for pod in removal.deleted)
    of_jobs = (
        (pod, f"{pod.metadata.namespace}/{owner.name}") for pod, owner in owners if owner and owner.kind == "Job"
    )
    failed = _keys(pod for pod, job in of_jobs if job in jobs)
    lost = _keys(removal.lost)
    if not lost and not failed:
        return Followed(removal.after, removal.change)
    present = lost | failed | _keys(removal.after.pods)  # those that go are still there, in their old order
    pods = tuple(pod for pod in base.snapshot.pods if pod.metadata.key in present)
    simulation = begin_controllers(base, replace(removal.after, pods=pods))
    _remove(simulation, lost, "its node is lost")
    simulation.controllers.run(waits=True)
    _remove(simulation, failed, "is deleted", is_deleted=True)
    simulation.controllers.run()  # their jobs count them
    return followed(simulation, snapshot_of(simulation, removal.after, with_leaving=True), removal.change)


def with_requests(base: Base, recommended: Recommendations) -> Followed:
    """Return the snapshot with recommended requests, after controllers recreated the pods that have no room any more.

    Raises UsageError when no workload of the cluster is among those with a recommendation.
    """
    new = resized(base.snapshot, recommended)
    after, evicted = new.snapshot, new.evicted
    entry = replace(edits.entry_of("resize", recommended.what, new.workloads), requests=new.requests)
    if not evicted:
        return Followed(after, entry)
    evicted_keys = _keys(evicted)
    left = replace(after, pods=tuple(pod for pod in after.pods if pod.metadata.key not in evicted_keys))
    simulation = begin_controllers(base, after)
    _remove(simulation, evicted_keys, "its node has no room for its new requests")
    simulation.controllers.run(waits=True)
    return followed(simulation, snapshot_of(simulation, left, with_leaving=True), entry)


def _remove(simulation: Simulation, keys: Keys, because: str, *, is_deleted: bool = False) -> None:
    """Remove pods, by name; those that have ended or are being deleted take no part in the simulation."""
    for pod in sorted(simulation.pods.values(), key=lambda pod: (pod.namespace, pod.name)):
        if pod.key in keys:
            simulation.life.remove(replace(pod, is_deleted=is_deleted), StepEvent.DELETED, because)


def _keys(pods: Iterable[Pod]) -> Keys:
    return frozenset(pod.metadata.key for pod in pods)


B = TypeVar("B", bound=Base)


Edit = Callable[[Base], Followed]  #: a change that was read


def read_edits(change: ChangeBase) -> list[Edit]:
    """Read a change, which is carried out by `edited`; raises UsageError for one that means nothing on paper."""
    return [edit for part in change.parts for edit in _edits(part)]


def edited(base: B, changes: Iterable[Edit]) -> B:
    """Return the changed cluster; the first stays as it is.

    Raises NotFoundError for an object that does not exist, and UsageError for a change that is impossible, such as
    scaling a kind without replicas.
    """
    before, moment = base, 0
    for edit in changes:
        after, note, at = edit(before)
        moment = max(moment, at)
        after = with_usage(after, before.snapshot)
        before = base.with_snapshot(replace(after, changes=(*after.changes, note)))
    if before is base:
        return base
    return base.with_snapshot(_with_own_warnings(base.snapshot, before.snapshot), not_before=moment or None)


def _with_own_warnings(before: Snapshot, after: Snapshot) -> Snapshot:
    """Return a changed snapshot whose warnings about references are those of its own nodes and pods."""
    if before.nodes is after.nodes and before.pods is after.pods:
        return after
    stale = set(reference_warnings(before))
    others = tuple(warning for warning in after.warnings if warning not in stale)
    return replace(after, warnings=(*others, *reference_warnings(after)))


def changed(base: B, changes: Iterable[ChangeBase]) -> B:
    """Return the cluster after changes, one after the other, as `edited`."""
    return edited(base, [edit for change in changes for edit in read_edits(change)])


def _edits(change: ChangeBase) -> Iterator[Edit]:  # noqa: C901, PLR0912 - one case a kind, in one place
    match change:
        case c.Apply():
            for source in change.manifests:
                yield partial(_with_objects, written=edits.read_objects(source))
        case c.Delete():
            for text in change.objects:
                yield partial(without, which=parse_reference(text))
        case c.Scale(autoscaler=""):
            yield partial(with_replicas, which=parse_reference(change.workload), replicas=change.replicas)
        case c.Cordon() | c.Uncordon():
            for name in change.nodes:
                yield _edit(edits.with_cordons, edits.nodes_named(name), name, is_cordoned=isinstance(change, c.Cordon))
        case c.AddNodes():
            yield _edit(edits.with_nodes, change.nodes, change.like, change.labels, change.room)
        case c.Resize():
            yield partial(with_requests, recommended=read_recommendations(change.recommendations))
        case c.Taint():
            for name, taints in change.taints.items():
                yield _edit(edits.with_taints, name, taints)
        case LoosenBudget():
            yield _edit(edits.with_budget, change.budget, change.fields)
        case RaiseQuota():
            yield _edit(edits.with_quota, change.quota, {limit.resource: limit.to for limit in change.limits})
        case c.Settle():
            yield settled
        case _:
            raise change.refused("on paper")


def _edit(edit: Callable[..., tuple[Snapshot, ClusterChange]], *arguments: Any, **more: Any) -> Edit:
    """Return a change of a snapshot in which no controller takes part."""
    return lambda base: Followed(*edit(base.snapshot, *arguments, **more))


def _with_objects(base: Base, written: edits.Written) -> Followed:
    """Return the snapshot with objects, and with the status that new disruption budgets without one get at once."""
    after, note = edits.with_written(base.snapshot, written)
    budgets = (obj for obj in written.loaded.objects if isinstance(obj, PodDisruptionBudget))
    new = {key_of(obj) for obj in budgets if obj.status == PodDisruptionBudgetStatus()}
    if new:
        after = with_budget_statuses(after, begin_controllers(base, after).disruptions.statuses(new))
    return Followed(after, note)
