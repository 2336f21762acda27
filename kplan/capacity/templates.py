"""Workloads of manifests and of the snapshot as templates whose replicas are counted.

A template is admitted once, and one pod stands for all replicas; if each replica has its own claims, there is a pod for
each. A workload that the snapshot does not hold is known from its pods; its youngest pod then stands for the template.
Daemon sets have no replicas, finished jobs create no more pods, and the jobs of a cron job count as the cron job.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec
from msgspec.structs import replace

from kplan.admission.gates import NEWEST
from kplan.api.core import Pod, PodTemplateSpec
from kplan.api.kinds import DAEMON_SET, type_of
from kplan.api.labels import COMPLETION_INDEX, STATEFUL_INDEX, STATEFUL_NAME, InvalidSelector, parse_selector
from kplan.api.meta import controller_of
from kplan.api.names import WorkloadRef
from kplan.api.quantity import grouped, value
from kplan.api.scheduling import PodGroup
from kplan.api.workloads import StatefulSet
from kplan.cluster.base import Base
from kplan.cluster.incoming import IncomingPod, admit_manifests, with_objects, with_uid
from kplan.cluster.workload_pods import no_replicas
from kplan.course.beginning import unmoved
from kplan.course.simulation.controllers.observed import Create
from kplan.course.simulation.jobs import JobState
from kplan.course.simulation.owners import DeploymentState, ForeignState, Owner, ReplicaSetState, StatefulSetState
from kplan.course.simulation.pod_creation import PodMaker
from kplan.documents.placement import Origin
from kplan.errors import NotFoundError, UsageError
from kplan.facts import InputWarning
from kplan.rules.pod_info import PodInfo
from kplan.rules.resources import PODS, quantity_text, resource_order
from kplan.snapshot.defaults import complete
from kplan.snapshot.model import Snapshot
from kplan.workloads import Manifests
from kplan.workloads.new_pods import generated_claims, stateful_claims

MAX_OWN_REPLICAS = 10_000  #: the largest number of pods for a template whose replicas have their own claims


class Template(msgspec.Struct, frozen=True):
    """A pod to place again and again, or a list of pods to place in turn."""

    name: str  #: for reports
    replicas: tuple[PodInfo, ...]  #: the pods; one that stands for all replicas unless `are_distinct`
    share: int = 1  #: how many are placed in a row before it is the next template's turn
    refused: str = ""  #: why the API server refuses such a pod; empty when it accepts it
    are_distinct: bool = False  #: the replicas differ from each other, and there are no more than `replicas` holds
    origin: Origin | None = None  #: the manifest that they come from
    group: PodGroup | None = None  #: the group whose pods `replicas` are, several times where they are distinct
    group_size: int = 0  #: how many pods such a group has
    n_more: int = 0  #: pods of the group that are not created, because no cluster has room for so many

    @property
    def most(self) -> int:
        """How many replicas, or groups, there are at most where they are distinct."""
        return len(self.replicas) // (self.group_size or 1)

    @property
    def requests(self) -> dict[str, str]:
        """What each pod requests, or all pods of a group: resource -> quantity."""
        requests: Counter[str] = Counter()
        for info in self.replicas[: self.group_size or 1]:
            requests.update(info.resources.requests)
        return {name: quantity_text(name, requests[name]) for name in resource_order(requests) if requests[name]}

    def replica(self, index: int) -> PodInfo | None:
        if not self.are_distinct:
            return self.replicas[0]
        return self.replicas[index] if index < len(self.replicas) else None

    def group_like(self, number: int) -> tuple[PodGroup, list[PodInfo]] | None:
        """Return a group like that of the template, with its pods; None where there are no more with their own claims.

        The first is the group of the manifest itself. The pods of further ones have the same labels, as those of one
        workload have.
        """
        group, size = self.group, self.group_size
        assert group is not None  # noqa: S101 - the template is that of a group
        start = number * size if self.are_distinct else 0
        pods = self.replicas[start : start + size]
        if len(pods) < size:
            return None
        if number == 0:
            return group, list(pods)
        name = f"{group.metadata.name.removesuffix(FIRST_COPY)}-copy-{number}"
        metadata = replace(group.metadata, name=name, uid=f"{group.metadata.namespace}/{name}")
        members = [_in_group(info.pod, name) for info in pods]
        ending = "" if self.are_distinct else f"-copy-{number}"
        return replace(group, metadata=metadata), [PodInfo(_named(pod, pod.metadata.name + ending)) for pod in members]

    def pods(self, number: int) -> list[Pod]:
        """Return the pods of a replica, or of a group, as they are named; empty where there are no more."""
        if self.group is not None:
            copied = self.group_like(number)
            return [] if copied is None else [info.pod for info in copied[1]]
        info = self.replica(number)
        if info is None:
            return []
        name = info.pod.metadata.name
        return [_named(info.pod, name if self.are_distinct else f"{name.removesuffix('-0')}-{number}")]


FIRST_COPY = "-copy-0"
"""Ends the name of the first group that is counted, where the cluster has pods of the manifest's own."""


def _in_group(pod: Pod, name: str) -> Pod:
    group = pod.spec.scheduling_group
    assert group is not None  # noqa: S101 - all pods of a template with a group name it
    return replace(pod, spec=replace(pod.spec, scheduling_group=replace(group, pod_group_name=name)))


def _named(pod: Pod, name: str) -> Pod:
    return replace(pod, metadata=replace(pod.metadata, name=name, uid=f"{pod.metadata.namespace}/{name}"))


class CountedTemplates(msgspec.Struct, frozen=True):
    """Templates to count, and the other objects of their manifests."""

    templates: tuple[Template, ...]
    objects: tuple[msgspec.Struct, ...]  #: services, claims, budgets and the like
    warnings: tuple[InputWarning, ...]


def templates_of(
    manifests: Manifests,
    snapshot: Snapshot,
    *,
    wanted: int | None = None,
    limit: int | None = None,
    minor: int = NEWEST,
    keeps_groups: bool = False,
) -> CountedTemplates:
    """Return the template of each workload of manifests, of which these have one replica, after admission.

    With `keeps_groups` the pods of a pod group, all of which the manifests hold, are counted as one. Raises
    ManifestError as `admit_manifests`, and UsageError where there is no workload, or one is a daemon set.
    """
    if daemons := [pod for pod in manifests.pods if pod.kind == DAEMON_SET]:
        raise no_replicas(daemons[0].name, "kplan place shows on which nodes it fits")
    if not manifests.pods:
        hint = "for a DaemonSet, kplan place shows the nodes that get a pod; else name a workload"
        raise UsageError("there are no replicas to count: the manifests create no pod in this cluster", hint=hint)
    incoming = admit_manifests(manifests, snapshot, minor=minor, keeps_groups=keeps_groups)
    combined = with_objects(snapshot, incoming.objects)
    most = most_replicas(snapshot, wanted, limit)
    objects = list(incoming.objects)
    # The pods of a pod group are counted together.
    units = grouped((_unit_of(pod.pod) or index, pod) for index, pod in enumerate(incoming.pods))
    firsts = (unit[0] for unit in units.values())
    names = [f"{pod.pod.metadata.namespace}/{pod.origin.name}" for pod in firsts]
    uses = Counter(names)
    templates = []
    for name, unit in zip(names, units.values(), strict=True):
        pod = unit[0]
        if pod.pod.spec.scheduling_group is not None:
            template, claims = _of_group(unit, most, combined)
        else:
            own = name if uses[name] == 1 else f"{pod.origin.kind}/{name}"
            pods, claims = stand_ins(pod.pod, 0 if pod.refused else most, combined)
            infos, are_distinct = tuple(map(PodInfo, pods)), len(pods) > 1
            template = Template(own, infos, refused=pod.refused, are_distinct=are_distinct, origin=pod.origin)
        objects += claims
        templates.append(template)
    return CountedTemplates(tuple(templates), tuple(objects), incoming.warnings)


def _unit_of(pod: Pod) -> tuple[str, str] | None:
    group = pod.spec.scheduling_group
    return None if group is None else (pod.metadata.namespace, group.pod_group_name or "")


def _of_group(pods: Sequence[IncomingPod], most: int, snapshot: Snapshot) -> tuple[Template, list[msgspec.Struct]]:
    """Return the template of a pod group, all of whose pods are given, and the claims of further groups like it."""
    namespace, name = _unit_of(pods[0].pod) or ("", "")
    group = next((group for group in snapshot.pod_groups if group.metadata.key == f"{namespace}/{name}"), None)
    if group is None:
        message = f"the pods of {pods[0].origin.name} belong to PodGroup {namespace}/{name}, which does not exist"
        raise UsageError(message, hint="add its PodGroup to the manifests")
    first = [_under_free_name(pod.pod, snapshot) for pod in pods]
    if any(_unit_of(pod) == (namespace, name) for pod in snapshot.pods):
        # The group has pods already, so even the first one that is counted is another group like it.
        group = replace(group, metadata=replace(group.metadata, name=name + FIRST_COPY, uid=""))
        first = [_in_group(pod, name + FIRST_COPY) for pod in first]
    infos = list(map(PodInfo, first))
    claims: list[msgspec.Struct] = []
    has_own = any(_has_own_claims(pod.pod, snapshot) for pod in pods)
    for number in range(1, min(most, MAX_OWN_REPLICAS // len(pods)) if has_own else 0):
        for one in pods:
            metadata = replace(one.pod.metadata, name=f"{one.pod.metadata.name}-copy-{number}", uid="")
            status = replace(one.pod.status, resource_claim_statuses=())
            copied = with_uid(replace(one.pod, metadata=metadata, status=status))
            copied, own = _with_claims(copied, _stateful_set(one.pod, snapshot), snapshot)
            infos.append(PodInfo(copied))
            claims += own
    template = Template(
        f"{namespace}/{name}",
        tuple(infos),
        refused=next((pod.refused for pod in pods if pod.refused), ""),
        are_distinct=has_own,
        origin=pods[0].origin,
        group=group,
        group_size=len(pods),
        n_more=sum(pod.more for pod in pods),
    )
    return template, [complete(claim, type_of(claim)) for claim in claims]


def _with_claims(pod: Pod, owner: StatefulSet | None, snapshot: Snapshot) -> tuple[Pod, list[msgspec.Struct]]:
    claims: list[msgspec.Struct] = []
    if owner is not None:
        pod, own = stateful_claims(owner, pod, snapshot)
        claims += own
    pod, generated = generated_claims(pod, snapshot)
    return pod, [*claims, *generated]


def stand_ins(first: Pod, most: int, snapshot: Snapshot) -> tuple[list[Pod], list[msgspec.Struct]]:
    """Return the pods that stand for replicas of a pod as the API server stores it, and their claims, stored as well.

    That is one for all replicas, with a free name, or `most` if each replica has its own claims.
    """
    if most < 1 or not _has_own_claims(first, snapshot):
        return [_under_free_name(first, snapshot)], []
    owner, numbers = _stateful_set(first, snapshot), _free_numbers(first, snapshot)
    own = {entry.name for entry in first.spec.resource_claims if entry.resource_claim_template_name}
    shared = tuple(status for status in first.status.resource_claim_statuses if status.name not in own)
    pods: list[Pod] = []
    claims: list[msgspec.Struct] = []
    for number in itertools.islice(numbers, min(most, MAX_OWN_REPLICAS)):
        pod = _renumbered(first, number)
        pod = with_uid(replace(pod, status=replace(pod.status, resource_claim_statuses=shared)))
        pod, more = _with_claims(pod, owner, snapshot)
        pods.append(pod)
        claims += more
    return pods, [complete(claim, type_of(claim)) for claim in claims]


def most_replicas(snapshot: Snapshot, wanted: int | None, limit: int | None) -> int:
    """Return a number of replicas that is never smaller than the count, plus the first one that does not fit."""
    known = [number for number in (wanted, limit) if number is not None]
    if known:
        return max(min(known), 1)
    return sum(value(node.status.allocatable.get(PODS, 0)) for node in snapshot.nodes) + 1


def _has_own_claims(pod: Pod, snapshot: Snapshot) -> bool:
    has_claims = pod.spec.resource_claims or any(volume.ephemeral is not None for volume in pod.spec.volumes)
    return bool(has_claims) or _stateful_set(pod, snapshot) is not None


def _stateful_set(pod: Pod, snapshot: Snapshot) -> StatefulSet | None:
    """Return the stateful set that controls a pod, if its replicas have claims of their own."""
    owner, namespace = controller_of(pod.metadata), pod.metadata.namespace
    if owner is None or owner.kind != "StatefulSet":
        return None
    named = (one for one in snapshot.stateful_sets if one.metadata.key == f"{namespace}/{owner.name}")
    return next((one for one in named if one.spec.volume_claim_templates), None)


def _under_free_name(pod: Pod, snapshot: Snapshot) -> Pod:
    if pod.metadata.key not in snapshot.pod_by_key:
        return pod
    return with_uid(_renumbered(pod, next(_free_numbers(pod, snapshot))))


def _free_numbers(first: Pod, snapshot: Snapshot) -> Iterator[int]:
    prefix, _, number = first.metadata.name.rpartition("-")
    path = f"{first.metadata.namespace}/{prefix}"
    numbers = itertools.count(int(number) if number.isdecimal() else 0)
    return (number for number in numbers if f"{path}-{number}" not in snapshot.pod_by_key)


def _renumbered(pod: Pod, number: int) -> Pod:
    name = f"{pod.metadata.name.rpartition('-')[0]}-{number}"
    own = {STATEFUL_NAME: name, STATEFUL_INDEX: str(number), COMPLETION_INDEX: str(number)}
    labels = {key: own.get(key, value) for key, value in pod.metadata.labels.items()}
    return replace(pod, metadata=replace(pod.metadata, name=name, uid="", labels=labels))


def own_workloads(base: Base) -> dict[str, int]:
    """Return the workloads whose replicas can be counted, KIND/NAMESPACE/NAME, with the number of pods on nodes."""
    known = {cron.metadata.key for cron in base.objects.cron_jobs}
    owners = ((job.metadata, controller_of(job.metadata)) for job in base.objects.jobs)
    runs = ((job, f"{job.namespace}/{owner.name}") for job, owner in owners if owner and owner.kind == "CronJob")
    job_of = {f"Job/{job.key}": f"CronJob/{cron_job}" for job, cron_job in runs if cron_job in known}
    # A controller scales these, many of which may be empty.
    owned_sets = (one.metadata for one in base.objects.replica_sets if controller_of(one.metadata) is not None)
    is_scaled = {f"ReplicaSet/{metadata.key}" for metadata in owned_sets}
    running = {f"CronJob/{cron_job.metadata.key}": 0 for cron_job in base.objects.cron_jobs}
    for state in unmoved(base).workloads.all():
        key = state.ref.key
        if isinstance(state, DeploymentState):
            if _revision(_maker(state)) is not None:
                running[key] = sum(_running(replica_set) for replica_set in state.sets.values())
        elif key in job_of:
            running[job_of[key]] += _running(state)
        elif not _is_left_out(state) and (key not in is_scaled or state.pods or state.desired):
            running[key] = _running(state)
    return dict(sorted(running.items()))


def with_labels(base: Base, text: str, namespace: str = "") -> list[str]:
    """Return the workloads, as KIND/NAMESPACE/NAME, whose pods have labels that a selector such as ``app=web`` matches.

    Raises UsageError when the selector is invalid.
    """
    try:
        selector = parse_selector(text)
    except InvalidSelector as error:
        raise UsageError(f"selector {text}: {error}", hint="for example pool=gpu,!spot") from None
    snapshot = base.objects
    matching = {
        f"{type(obj).kind}/{obj.metadata.key}"
        for objects in (snapshot.deployments, snapshot.stateful_sets, snapshot.replica_sets, snapshot.jobs)
        for obj in objects
        if namespace in ("", obj.metadata.namespace) and selector.matches(obj.spec.template.metadata.labels)
    }
    return sorted(own_workloads(base).keys() & matching)


def next_replicas(base: Base, key: str, most: int) -> tuple[Template, list[msgspec.Struct]]:
    """Return the pods that a workload would create next, `most` at most, and their claims.

    Raises NotFoundError when the snapshot holds neither its template nor a pod of it.
    """
    owner = _owner(base, key)
    snapshot = base.objects
    revision = _revision(owner)
    if revision is None:
        raise NotFoundError(f"the snapshot does not say what pods {key} makes", hint="name its manifest")
    simulation = unmoved(base)
    maker = PodMaker(snapshot, simulation.session.listers.fork(), base.release.number)
    numbers = (pod.index for pod in owner.pods.values() if pod.index is not None)
    index = max(numbers, default=-1) + 1 if isinstance(owner, StatefulSetState) else None
    whole = simulation.workloads.templates.whole(owner.templates[revision])
    info, refused = maker.make(owner, Create("", revision, index), whole)
    pods, claims = stand_ins(info.pod, 0 if refused else most, snapshot)
    return Template(key, tuple(map(PodInfo, pods)), refused=refused, are_distinct=len(pods) > 1), claims


def next_pod(base: Base, kind: str, namespace: str, name: str) -> tuple[IncomingPod, list[msgspec.Struct]]:
    """Return the pod that a workload of the snapshot would create next, and its claims.

    Raises NotFoundError as `next_replicas`, and UsageError for a daemon set, whose pods are tied to nodes.
    """
    if kind == DAEMON_SET:
        hint = f"kplan explain ds/{namespace}/{name} shows them; kplan place FILE asks about its manifest"
        raise UsageError(f"DaemonSet {namespace}/{name} has no pending pod: its pods are on their nodes", hint=hint)
    template, claims = next_replicas(base, f"{kind}/{namespace}/{name}", 1)
    origin = Origin(base.snapshot.source, kind=kind, name=name)
    return IncomingPod(template.replicas[0].pod, origin, template.refused), claims


def _owner(base: Base, key: str) -> Owner:
    """Return the owner of a workload's pods; not to be changed."""
    wanted = WorkloadRef.parse(key)
    for cron in base.objects.cron_jobs if wanted.kind == "CronJob" else ():
        if cron.metadata.key == wanted.path:
            ref = WorkloadRef("Job", wanted.namespace, wanted.name, api_version="batch/v1")
            return JobState(ref, {"": cron.spec.job_template.spec.template})
    state = unmoved(base).workloads.find(key)
    if state is None:
        raise NotFoundError(f"the snapshot has no workload {key}")
    return state if isinstance(state, Owner) else _maker(state)


def _maker(deployment: DeploymentState) -> Owner:
    if deployment.current is not None:
        return deployment.current
    new = deployment.new_set()
    ref = WorkloadRef("ReplicaSet", new.metadata.namespace, new.metadata.name)
    return ReplicaSetState(ref, {"": new.spec.template})


def _revision(owner: Owner) -> str | None:
    """Return the revision of the next pod; None if its template is unknown."""
    if isinstance(owner, ForeignState):
        youngest = max(owner.pods.values(), key=lambda pod: (pod.created, pod.order), default=None)
        return None if youngest is None else youngest.revision
    revision = owner.wanted.update if isinstance(owner, StatefulSetState) else ""
    template: PodTemplateSpec | None = owner.templates.get(revision)
    return revision if template is not None and template.spec.containers else None


def _is_left_out(owner: Owner) -> bool:
    if isinstance(owner, JobState):
        return owner.wanted.is_over
    is_tied = owner.ref.kind == DAEMON_SET or (isinstance(owner, ReplicaSetState) and owner.parent is not None)
    return is_tied or _revision(owner) is None


def _running(owner: Owner) -> int:
    return sum(bool(pod.node) for pod in owner.pods.values())
