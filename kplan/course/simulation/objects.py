"""The workloads of a snapshot with their pods, as their controllers see them."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from typing import Any, TypeVar

from msgspec import structs
from msgspec.structs import replace

from kplan.api.core import Node, Pod, PodTemplateSpec, ReplicationController, target_of
from kplan.api.kinds import type_of
from kplan.api.labels import (
    COMPLETION_INDEX,
    REVISION_HASH,
    STATEFUL_INDEX,
    TEMPLATE_GENERATION,
    TEMPLATE_HASH,
    Selector,
    parse_int64,
)
from kplan.api.meta import LabelSelector, OwnerReference, condition_of, controller_of
from kplan.api.names import WorkloadRef, object_name
from kplan.api.quantity import natural
from kplan.api.time import seconds
from kplan.api.workloads import DaemonSet, Deployment, Job, ReplicaSet, StatefulSet
from kplan.course.simulation.controllers.daemon_set import Eligibility, WantedDaemonSet
from kplan.course.simulation.controllers.deployment import WantedDeployment
from kplan.course.simulation.controllers.observed import IsOn, ObservedPod, count
from kplan.course.simulation.jobs import JobState
from kplan.course.simulation.owners import (
    DaemonSetState,
    DeploymentState,
    ForeignState,
    Owner,
    ReplicaSetState,
    StatefulSetState,
    Workload,
    compiled,
)
from kplan.course.simulation.templates import Revision, Revisions, Templates, equal_revision
from kplan.rules.pod_info import PodInfo
from kplan.snapshot.model import Snapshot
from kplan.workloads.new_pods import eligibilities, with_job_name, with_template_hash

S = TypeVar("S", bound=Owner)

_STATIC = "Node"  #: a static pod's owner: only its node's kubelet recreates it


class Workloads:
    """All workloads, by KIND/NAMESPACE/NAME; `is_on` tells whether a gate is on, `revisions` are the snapshot's."""

    def __init__(self, templates: Templates, is_on: IsOn, revisions: Revisions) -> None:
        self.templates = templates
        self.is_on = is_on
        self.revisions = revisions
        #: also stand-ins for what the snapshot does not hold, which may be called like a deployment
        self._owners: dict[str, Owner] = {}
        self._deployments: dict[str, DeploymentState] = {}
        self._ages = 0
        self._daemon_sets: list[str] = []
        #: namespace -> keys of the replica sets without a controller, in the order in which they came to be
        self.orphan_sets: dict[str, list[str]] = {}
        self._original: Workloads | None = None
        self.deleted: set[str] = set()  #: keys of the jobs that are deleted, and were not applied again
        self.pods: Sequence[Pod] = ()  #: of the snapshot

    @staticmethod
    def of(snapshot: Snapshot, is_on: IsOn) -> Workloads:
        workloads = Workloads(Templates.of(snapshot), is_on, Revisions(snapshot))
        workloads.pods = snapshot.pods
        for deployment in snapshot.deployments:
            workloads.add_deployment(deployment)
        for replica_set in sorted(
            snapshot.replica_sets, key=lambda obj: (obj.metadata.creation_timestamp or "", obj.metadata.name)
        ):
            workloads.add_replica_set(replica_set)
        workloads.match_completed()
        for controller in snapshot.replication_controllers:
            workloads.add_replication_controller(controller)
        for stateful_set in snapshot.stateful_sets:
            workloads.add_stateful_set(stateful_set)
        for daemon_set in snapshot.daemon_sets:
            workloads.add_daemon_set(daemon_set, snapshot.nodes)
        for job in snapshot.jobs:
            workloads.add_job(job)
        return workloads

    @cached_property
    def _controllers(self) -> frozenset[str]:
        """The UIDs of whatever controls pods of the snapshot."""
        return frozenset(owner.uid for pod in self.pods if (owner := controller_of(pod.metadata)) is not None)

    def fork(self) -> Workloads:
        """Return an independent copy, which copies each workload when it is first looked up."""
        forked = Workloads(self.templates.copy(), self.is_on, self.revisions)
        forked._ages, forked._daemon_sets = self._ages, self._daemon_sets.copy()
        forked.pods = self.pods
        forked.orphan_sets = {namespace: keys.copy() for namespace, keys in self.orphan_sets.items()}
        forked._original = self
        return forked

    def owner(self, key: str) -> Owner | None:
        """Return the state of a workload that owns pods: a replica set, a stateful set and the like."""
        owner = self._owners.get(key)
        if owner is not None or self._original is None or key in self.deleted:
            return owner
        original = self._original.owner(key)
        if original is None:
            return None
        if isinstance(original, ReplicaSetState) and original.parent is not None:
            self.deployment(original.parent.ref.key)
        else:
            self._owners[key] = original.copy()
        return self._owners[key]

    def deployment(self, key: str) -> DeploymentState | None:
        deployment = self._deployments.get(key)
        if deployment is not None or self._original is None:
            return deployment
        original = self._original.deployment(key)
        if original is None:
            return None
        deployment = self._deployments[key] = original.copy()
        self._owners.update({replica_set.ref.key: replica_set for replica_set in deployment.sets.values()})
        return deployment

    def keys(self) -> list[str]:
        """Return the keys of all workloads, deployments last."""
        original = [] if self._original is None else self._original.keys()
        known = dict.fromkeys((*original, *self._owners, *self._deployments))
        return sorted(known, key=lambda key: key.startswith("Deployment/"))

    def find(self, key: str) -> Workload | None:
        return self.deployment(key) or self.owner(key)

    def all(self, namespace: str = "") -> Iterator[Workload]:
        """Yield the states of all workloads, or of those in a namespace, deployments last."""
        for key in self.keys():
            state = self.find(key) if not namespace or WorkloadRef.parse(key).namespace == namespace else None
            if state is not None:
                yield state

    def daemon_sets(self) -> list[DaemonSetState]:
        owners = map(self.owner, self._daemon_sets)
        return [owner for owner in owners if isinstance(owner, DaemonSetState)]

    def _begin(self, obj: Any) -> tuple[WorkloadRef, PodTemplateSpec]:
        """Note the template of a workload that is added; return the workload's name, and the template."""
        metadata, template = obj.metadata, obj.spec.template or PodTemplateSpec()
        ref = WorkloadRef(obj.kind, metadata.namespace, metadata.name, metadata.uid, type_of(obj).api_version)
        self.templates.note(ref.key, template)
        return ref, template

    def _own(self, state: S) -> S:
        self._owners[state.ref.key] = state
        return state

    def add_deployment(self, obj: Deployment, template: bytes | None = None) -> DeploymentState:
        """Add a deployment; its replica sets follow. `template`: the identity of its template, if that is known."""
        ref, _ = self._begin(obj)
        template = template or self.templates.identity(ref.key, obj.spec.template)
        selector, digest = obj.spec.selector or LabelSelector(), self.templates.digest(template)
        state = DeploymentState(ref, WantedDeployment(0), template, obj.spec.template, selector, digest)
        state.is_whole = self.templates.is_whole(ref.key)
        state.want(obj)
        self._deployments[ref.key] = state
        return state

    def add_replica_set(self, obj: ReplicaSet, template: bytes | None = None) -> ReplicaSetState:
        """Add a replica set, also to its deployment. `template`: the identity of its template, if that is known."""
        ref, _ = self._begin(obj)
        self._ages += 1
        annotations, owner = obj.metadata.annotations, controller_of(obj.metadata)
        state = ReplicaSetState(
            ref,
            {"": obj.spec.template},
            replicas=count(obj.spec.replicas),
            template=template or self.templates.identity(ref.key, obj.spec.template),
            age=self._ages,
            annotated=(_annotated(annotations.desired_replicas), _annotated(annotations.max_replicas)),
            labels=obj.metadata.labels,
            is_controlled=owner is not None,
            selector=compiled(obj.spec.selector),
            min_ready=obj.spec.min_ready_seconds,
            number=_annotated(annotations.revision) or 0,
        )
        if owner is None:
            self.orphan_sets.setdefault(ref.namespace, []).append(ref.key)
        self._own(state)
        parent = None
        if owner is not None and owner.kind == "Deployment":  # an Argo Rollout may have the same name
            parent = self.deployment(object_name("Deployment", ref.namespace, owner.name))
        if parent is not None:
            if not obj.spec.template.spec.containers and state.replicas > 0 and parent.current is None:
                # Written by hand, without a template: the set with pods is that of the deployment's current template.
                digest = obj.metadata.labels.get(TEMPLATE_HASH)
                template_of_pods = parent.spec if digest is None else with_template_hash(parent.spec, digest)
                state.template, state.templates = parent.template, {"": template_of_pods}
            if None in state.annotated:
                state.annotated = (parent.wanted.replicas, parent.wanted.max_pods)
            parent.adopt(state)
        return state

    def match_completed(self) -> None:
        """Find the current sets of deployments of which only the templates' defaults are not spelt out."""
        for deployment in self._deployments.values():
            if not deployment.is_whole or not deployment.sets or deployment.current is not None:
                continue
            wanted = self.templates.completed_identity(deployment.ref.key, deployment.spec)
            for state in deployment.sets.values():
                if self.templates.completed_identity(state.ref.key, state.templates[""]) == wanted:
                    state.template = deployment.template

    def add_replication_controller(self, obj: ReplicationController) -> ReplicaSetState:
        ref, template = self._begin(obj)
        return self._own(
            ReplicaSetState(
                ref,
                {"": template},
                replicas=count(obj.spec.replicas),
                is_controlled=controller_of(obj.metadata) is not None,
                selector=selector_of_controller(obj),
                min_ready=obj.spec.min_ready_seconds,
            )
        )

    def add_stateful_set(self, obj: StatefulSet) -> StatefulSetState:
        ref, _ = self._begin(obj)
        selector = compiled(obj.spec.selector)
        known = self.revisions.of(ref, selector)
        update = (
            self.revision_of(ref, obj.spec.template, obj.spec.selector)
            or obj.status.update_revision
            or self.templates.stateful_revision(ref, obj.spec.template)
        )
        current = obj.status.current_revision
        if not current or (known and current not in {revision.name for revision in known}):
            current = update
        state = StatefulSetState(
            ref,
            {**self._templates_of(known), update: obj.spec.template},
            has_revision=bool(known or obj.status.update_revision),
            n_claims=len(obj.spec.volume_claim_templates),
            selector=selector,
        )
        state.want(obj, current, update, self.is_on)
        return self._own(state)

    def revision_of(self, ref: WorkloadRef, template: PodTemplateSpec, selector: LabelSelector | None) -> str | None:
        """Return the name of the revision that a stateful set or daemon set has for a template; None for a new one."""
        revisions = self.revisions.of(ref, compiled(selector))
        revision = equal_revision(revisions, template, self.templates.stored(ref.key) if revisions else None)
        return None if revision is None else revision.name

    def _templates_of(self, revisions: Iterable[Revision]) -> dict[str, PodTemplateSpec]:
        for revision in revisions:
            if revision.whole is not None:
                self.templates.note_whole(revision.template, revision.whole)
        return {revision.name: revision.template for revision in revisions}

    def add_daemon_set(self, obj: DaemonSet, nodes: Iterable[Node]) -> DaemonSetState:
        """Add a daemon set; `name_revisions` reads its revision from its pods where the snapshot has none of it."""
        ref, template = self._begin(obj)
        self._daemon_sets.append(ref.key)
        selector = compiled(obj.spec.selector)
        known = self.revisions.of(ref, selector)
        revision = self.revision_of(ref, template, obj.spec.selector) or self.templates.revision(ref, template)
        return self._own(
            DaemonSetState(
                ref,
                {**self._templates_of(known), revision: template},
                wanted=WantedDaemonSet.of(obj, revision),
                has_revision=bool(known),
                nodes=eligible_nodes(template, nodes),
                selector=selector,
                min_ready=obj.spec.min_ready_seconds,
            )
        )

    def forget(self, key: str) -> None:
        """Forget a job that is over, of which no pod is left."""
        del self._owners[key]

    def delete_job(self, key: str) -> None:
        """Have a job be gone, which stays as the owner of its pods as long as these are there."""
        self.deleted.add(key)
        owner = self._owners.get(key)
        if owner is not None and not (owner.pods or owner.terminating):
            self.forget(key)

    def add_job(self, obj: Job) -> JobState:
        state = self._own(JobState.of(obj, *self._begin(obj)))
        self.deleted.discard(state.ref.key)
        return state

    def add_run(self, model: JobState, name: str, parent: WorkloadRef) -> JobState:
        """Add a run of a cron job: `model` with a name of its own."""
        run, namespace = model.copy(), model.ref.namespace
        run.ref = WorkloadRef("Job", namespace, name, f"{namespace}/{name}", model.ref.api_version)
        run.parent, run.templates = parent, {"": with_job_name(model.templates[""], name)}
        self.templates.note(run.ref.key, run.templates[""])
        return self._own(run)

    def owner_of(self, pod: Pod) -> Owner | None:
        """Return the owner that recreates a pod when it is gone; None for bare and static pods.

        A pod of a former workload of the same name, such as a job that was deleted and created again, has none.
        """
        reference = controller_of(pod.metadata)
        if reference is None or reference.kind == _STATIC:
            return None
        key = object_name(reference.kind, pod.metadata.namespace, reference.name)
        owner = self.owner(key)
        is_former = owner is not None and "" != owner.ref.uid != reference.uid != ""
        if owner is not None and is_former and owner.ref.uid in self._controllers:
            return None
        if owner is None or is_former:
            owner = self._owners[key] = self._missing(reference, pod)
        if isinstance(owner, StatefulSetState) and STATEFUL_INDEX not in pod.metadata.labels:
            # It gives up a pod for its name; a name that does not begin with its own is a pseudonym, and tells nothing.
            name, own = pod.metadata.name, owner.ref.name
            if name.startswith(f"{own}-") and not is_member(own, name):
                return None
        return owner

    def _missing(self, reference: OwnerReference, pod: Pod) -> Owner:
        """Return a stand-in for a controller whose object is not in the snapshot.

        A replica set whose name is that of a deployment with a template hash counts as that deployment's.
        """
        ref = WorkloadRef(reference.kind, pod.metadata.namespace, reference.name, reference.uid, reference.api_version)
        digest = pod.metadata.labels.get(TEMPLATE_HASH, "")
        parent = self.deployment(f"Deployment/{ref.namespace}/{ref.name.removesuffix(f'-{digest}')}")
        if ref.kind != "ReplicaSet" or not digest or parent is None or parent.current is not None:
            return ForeignState(ref)
        self._ages += 1
        state = ReplicaSetState(ref, {"": parent.spec}, template=parent.template, age=self._ages)
        state.replicas = parent.wanted.replicas
        state.annotated = (parent.wanted.replicas, parent.wanted.max_pods)
        parent.adopt(state)
        return state

    def give(self, pod: ObservedPod, info: PodInfo) -> ObservedPod:
        """Add a pod of the snapshot to its owner, unless it is terminating; return it, completed."""
        owner = self.owner_of(info.pod)
        if isinstance(owner, StatefulSetState):
            revision = info.labels.get(REVISION_HASH, owner.wanted.update)
            n_claims = sum(volume.persistent_volume_claim is not None for volume in info.pod.spec.volumes)
            is_misfit = n_claims < owner.n_claims  # it was taken over without the claims of the set
            pod = replace(pod, index=next_ordinal(owner, pod, info), revision=revision, is_misfit=is_misfit)
            owner.templates.setdefault(revision, _template_of(info.pod))
        elif isinstance(owner, DaemonSetState):
            revision = info.labels.get(REVISION_HASH, owner.wanted.revision)
            pod = replace(pod, target=target_of(info.pod), revision=revision)
        elif isinstance(owner, JobState) and owner.wanted.is_indexed:
            pod = replace(pod, index=completion_index(info))
            annotations, failures = info.pod.metadata.annotations, owner.index_failures
            if pod.index is not None:
                failures.counted[pod.index] = parse_int64(annotations.job_index_failure_count) or 0
                failures.ignored[pod.index] = parse_int64(annotations.job_index_ignored_failure_count) or 0
        elif isinstance(owner, ForeignState):
            pod = replace(pod, revision=pod.name)
            owner.templates[pod.name] = _template_of(info.pod)
            owner.size += not info.is_terminating
        if owner is not None:
            pod = replace(pod, owner=owner.ref.key)
            if not info.is_terminating:
                owner.join(pod)
        return pod

    def name_revisions(self, infos: Iterable[PodInfo]) -> None:
        """Read the revisions of daemon sets, and of stateful sets whose status has none, from their pods' labels.

        The highest template generation is the current one; where pods have none, the revision of most pods.
        """
        revisions_of: dict[str, Counter[tuple[int, str]]] = {}
        for info in infos:
            revision = info.labels.get(REVISION_HASH)
            if revision is not None and info.controller is not None:
                generation = parse_int64(info.labels.get(TEMPLATE_GENERATION, "")) or 0
                key = f"{info.controller[1]}/{info.namespace}/{info.controller[2]}"
                revisions_of.setdefault(key, Counter())[generation, revision] += 1
        for key, revisions in revisions_of.items():
            owner = self.owner(key)
            highest = max(generation for generation, _ in revisions)
            _, revision = max((n, revision) for (generation, revision), n in revisions.items() if generation == highest)
            if isinstance(owner, DaemonSetState):
                owner.generation = highest
            if isinstance(owner, DaemonSetState) and not owner.has_revision:
                owner.templates = {revision: owner.templates[owner.wanted.revision]}
                owner.wanted = replace(owner.wanted, revision=revision)
            elif isinstance(owner, StatefulSetState) and not owner.has_revision:
                owner.templates = {revision: owner.templates[owner.wanted.update]}
                owner.wanted = replace(owner.wanted, current=revision, update=revision)


def selector_of_controller(obj: ReplicationController) -> Selector | None:
    template = obj.spec.template or PodTemplateSpec()
    return compiled(LabelSelector(match_labels=obj.spec.selector or template.metadata.labels))


def eligible_nodes(template: PodTemplateSpec, nodes: Iterable[Node]) -> dict[str, Eligibility]:
    """Return for each node, by name, whether it should run a daemon pod of a template, and whether one may stay."""
    nodes = sorted(nodes, key=lambda node: node.metadata.name)
    answers = zip(nodes, eligibilities(template, nodes), strict=True)
    return {node.metadata.name: Eligibility(*answers) for node, answers in answers}


def _annotated(text: str) -> int | None:
    """Return the number in a replica set's annotation of its deployment; None where there is no valid one."""
    number = parse_int64(text)
    return None if number is None or number < 0 else number


def _template_of(pod: Pod) -> PodTemplateSpec:
    return PodTemplateSpec(metadata=pod.metadata, spec=structs.replace(pod.spec, node_name=""))


@lru_cache(maxsize=16)
def stamp(at: float) -> str:
    """Return seconds since 1970 as a time of an object, which has whole seconds."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(round(at, 6)))  # a sum may end just before a second


def observe(row: int, info: PodInfo, node: str, order: int) -> ObservedPod:
    """Return a pod of the snapshot as controllers see it.

    A running pod counts as ready unless its Ready condition is not True: then it never becomes ready.
    """
    pod, labels = info.pod, info.labels
    created = seconds(pod.metadata.creation_timestamp) or 0.0
    ready = condition_of(pod.status.conditions, "Ready")
    is_ready = bool(node) and (ready is None or ready.status == "True")
    since = (seconds(ready.last_transition_time) if ready is not None else None) or seconds(pod.status.start_time)
    cost = pod.metadata.annotations.deletion_cost
    return ObservedPod(
        row=row,
        namespace=info.namespace,
        name=info.name,
        uid=info.uid,
        created=created,
        node=node,
        phase=pod.status.phase or ("Running" if node else "Pending"),
        ready_since=(since or created) if is_ready else None,
        revision=labels.get(TEMPLATE_HASH) or labels.get(REVISION_HASH, ""),
        deletion_cost=(parse_int64(cost) or 0) if cost else 0,
        restarts=_restarts(pod),
        order=order,
    )


def _restarts(pod: Pod) -> tuple[int, int]:
    if not pod.status.container_statuses and not pod.status.init_container_statuses:
        return 0, 0
    sidecars = {one.name for one in pod.spec.init_containers if one.restart_policy == "Always"}
    own = (status.restart_count for status in pod.status.container_statuses)
    of_sidecars = (status.restart_count for status in pod.status.init_container_statuses if status.name in sidecars)
    return max(own, default=0), max(of_sidecars, default=0)


def is_member(stateful_set: str, pod: str) -> bool:
    """Tell whether a pod has the name of one of a stateful set's. Upstream: stateful_set_utils.go isMemberOf."""
    return pod.rpartition("-")[0] == stateful_set and ordinal_of(pod) is not None


def ordinal_of(name: str) -> int | None:
    """Return the number at the end of a pod's name; None where it has none."""
    return natural(name.rpartition("-")[2], 2**31 - 1)


def next_ordinal(owner: StatefulSetState, pod: ObservedPod, info: PodInfo) -> int:
    """Return a pod's ordinal in its stateful set; where its name has none, such as a pseudonym, the next free one."""
    ordinal = parse_int64(info.labels.get(STATEFUL_INDEX, ""))
    if ordinal is None and is_member(owner.ref.name, pod.name):
        ordinal = ordinal_of(pod.name)
    used = {sibling.index for sibling in owner.pods.values()}
    if ordinal is not None and ordinal not in used:
        return ordinal
    return next(number for number in itertools.count(owner.wanted.start) if number not in used)


def adopted_by(owner: Owner, pod: ObservedPod, info: PodInfo) -> ObservedPod:
    """Return a pod as a workload sees it that adopts it, as if created from the workload's current template."""
    if isinstance(owner, StatefulSetState):
        return replace(pod, owner=owner.ref.key, index=next_ordinal(owner, pod, info), revision=owner.wanted.update)
    return claimed_by(owner, pod, info, is_current=True, has_claims=True)


def claimed_by(owner: Owner, pod: ObservedPod, info: PodInfo, *, is_current: bool, has_claims: bool) -> ObservedPod:
    """Return a pod as a workload sees it that takes it over because its labels match.

    `is_current`: it looks as if created from the current template of a daemon set. `has_claims`: it has the volumes of
    a stateful set's pod.
    """
    pod, revision = replace(pod, owner=owner.ref.key), info.labels.get(REVISION_HASH, "")
    if isinstance(owner, StatefulSetState):
        return replace(pod, index=ordinal_of(pod.name), revision=revision, is_misfit=not has_claims)
    if isinstance(owner, DaemonSetState):
        return replace(pod, target=target_of(info.pod), revision=owner.wanted.revision if is_current else revision)
    if isinstance(owner, JobState) and owner.wanted.is_indexed:
        return replace(pod, index=completion_index(info), revision="")
    return replace(pod, revision="")


def completion_index(info: PodInfo) -> int | None:
    """Return a pod's completion index in its job; None where it has none."""
    annotation = info.pod.metadata.annotations.job_completion_index
    return parse_int64(info.labels.get(COMPLETION_INDEX, annotation))
