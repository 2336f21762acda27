"""Pods as their controllers create them and the API server stores them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import count
from typing import NamedTuple

from msgspec.structs import replace

from kplan.admission import Admitter, Named
from kplan.admission.stored import WholeTemplate
from kplan.api.core import PersistentVolumeClaim, Pod, PodStatus, PodTemplateSpec
from kplan.api.kinds import type_of
from kplan.api.labels import COMPLETION_INDEX, REVISION_HASH, STATEFUL_INDEX, STATEFUL_NAME, TEMPLATE_GENERATION
from kplan.api.meta import PlainMeta
from kplan.api.names import WorkloadRef
from kplan.api.pod import PodMeta, PodSpec
from kplan.api.resource import ResourceClaim
from kplan.api.workloads import StatefulSet
from kplan.course.simulation.controllers.observed import Create
from kplan.course.simulation.jobs import JobState
from kplan.course.simulation.owners import DaemonSetState, ForeignState, Owner, StatefulSetState
from kplan.engine.mappings import Recent
from kplan.facts import InputWarning, RefusedPods
from kplan.framework.listers import Listers
from kplan.rules.pod_info import PodInfo, is_unique
from kplan.rules.volumes import claims_of
from kplan.snapshot.defaults import complete
from kplan.snapshot.model import Snapshot
from kplan.workloads import WrittenWorkload
from kplan.workloads.new_pods import generated_claims, pinned, stateful_claims, with_tolerations


class SetClaims:
    """Creates and deletes the claims of stateful sets; `listers` receive them, `admitter` counts them in quotas."""

    def __init__(self, snapshot: Snapshot, listers: Listers, admitter: Admitter) -> None:
        self._snapshot = snapshot
        self._claims = listers.persistent_volume_claims
        self._admitter = admitter
        self._numbers = count(1)
        #: NAMESPACE/NAME of a set -> a claim refused in its last sync
        self.refused: dict[str, PersistentVolumeClaim] = {}
        self._fresh: dict[str, list[str]] = {}  #: NAMESPACE/NAME of a pod -> claims created for it, not told yet
        #: binds a new claim to a volume where its class does so at once
        self.bind: Callable[[PersistentVolumeClaim], PersistentVolumeClaim] = lambda claim: claim

    def mounted(self, stateful_set: StatefulSet, pod: Pod) -> Pod:
        return stateful_claims(stateful_set, pod, self._snapshot, self._claims)[0]

    def create(self, stateful_set: StatefulSet, pod: Pod) -> str:
        """Create the claims of a pod that do not exist yet; return why it cannot be created, "" where it can.

        Claims that the API server accepts stay, whatever becomes of the others and of the pod.
        """
        pod, missing = stateful_claims(stateful_set, pod, self._snapshot, self._claims)
        problems: list[str] = []
        self.refused.pop(stateful_set.metadata.key, None)
        for claim in missing:
            problems.append(problem := self._create(claim))
            if problem:
                self.refused.setdefault(stateful_set.metadata.key, claim)
            else:
                self._fresh.setdefault(pod.metadata.key, []).append(claim.metadata.name)
        for volume in pod.spec.volumes:
            source = volume.persistent_volume_claim
            known = None if source is None else self._claims.get((pod.metadata.namespace, source.claim_name))
            is_own = any(template.metadata.name == volume.name for template in stateful_set.spec.volume_claim_templates)
            if is_own and known is not None and known.metadata.deletion_timestamp is not None:
                problems.append(f"pvc {known.metadata.name} is being deleted")
        problems = [problem for problem in problems if problem]
        return problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]" if problems else ""

    def _create(self, claim: PersistentVolumeClaim) -> str:
        metadata = claim.metadata
        claim = complete(claim, type_of(claim))
        what = Named("", "persistentvolumeclaims", metadata.namespace, metadata.name)
        if words := self._admitter.refusal_of_object(what, [], claim):
            return f"failed to create PVC {metadata.name}: {words}"
        uid = f"{metadata.namespace}/{metadata.name}#{next(self._numbers)}"
        claim = replace(claim, metadata=replace(claim.metadata, uid=uid))
        self._claims[metadata.namespace, metadata.name] = self.bind(claim)
        return ""

    def take_fresh(self, pod: str) -> list[str]:
        """Return the names of the claims that were created for a pod, NAMESPACE/NAME, since the last call about it."""
        return self._fresh.pop(pod, [])

    def delete(self, stateful_set: StatefulSet, pod: PlainMeta) -> None:
        """Delete the claims of a pod that is gone, as garbage collection does when they are owned by the pod."""
        namespace = stateful_set.metadata.namespace
        owners = {("StatefulSet", stateful_set.metadata.name): stateful_set.metadata.uid, ("Pod", pod.name): pod.uid}
        for template in stateful_set.spec.volume_claim_templates:
            claim = self._claims.get((namespace, f"{template.metadata.name}-{pod.name}"))
            if claim is not None and not _is_of_another(claim, owners):
                self.remove(claim)

    def going(self, pod: Pod) -> list[PersistentVolumeClaim]:
        if not pod.spec.volumes or not self._claims:
            return []
        claims = (self._claims.get((pod.metadata.namespace, name)) for name in claims_of(pod))
        return [claim for claim in claims if claim is not None and claim.metadata.deletion_timestamp is not None]

    def remove(self, claim: PersistentVolumeClaim) -> None:
        del self._claims[claim.metadata.namespace, claim.metadata.name]
        self._admitter.quotas.release(claim)


def _is_of_another(claim: PersistentVolumeClaim, owners: Mapping[tuple[str, str], str]) -> bool:
    """Tell whether a claim has a controller besides its set and pod, or owners that are gone, so that it is left alone.

    Upstream: stateful_set_utils.go hasUnexpectedController, hasStaleOwnerRef.

    `owners`: kind and name of the set and of the pod -> uid.
    """
    for reference in claim.metadata.owner_references:
        uid = owners.get((reference.kind, reference.name))
        if reference.controller if uid is None else reference.uid != uid:
            return True
    return False


_UNCHANGED = ("containers", "init_containers", "node_selector", "priority_class_name", "host_network")
"""Fields of a pod that neither its node nor time changes."""

_OF_SPEC = ("host_ports", "shape_of_spec", "_terms_or_error", "requests", "scored_requests")
_OF_TEMPLATE = ("shape", "controller", *_OF_SPEC)
"""Cached properties of `PodInfo` that are equal for all pods with a spec, and for all pods of a template."""

MAX_MODELS = 4096
"""How many pods that have gone through admission are remembered, also for further simulations from the same start."""


class _Model(NamedTuple):
    """A pod that has gone through admission, and its template, whose spec its name in the cache stands for."""

    info: PodInfo
    refusal: str
    warnings: tuple[InputWarning, ...]
    template: PodTemplateSpec


class PodMaker:
    """Creates pods from templates.

    One pod of each template goes through admission; the others are copies of it, as are the pods of all runs of a cron
    job, whose templates differ only in labels.

    `snapshot`: the cluster before the first pod is created. `listers`: receives the claims that are created for pods.
    `minor`: minor version of the API server, such as 36.
    """

    def __init__(self, snapshot: Snapshot, listers: Listers, minor: int) -> None:
        self._snapshot = snapshot
        self._minor = minor
        self._listers = listers
        self._admitter = Admitter(snapshot, minor=minor)
        self.set_claims = SetClaims(snapshot, listers, self._admitter)  #: the claims of stateful sets
        self._has_quota = {quota.metadata.namespace for quota in snapshot.resource_quotas}
        self._used_names: set[str] = set()
        self._sets: set[tuple[str, str]] = set()  #: stateful sets that come, whose pods have numbers
        self._uids = count(1)
        self._numbers: dict[str, int] = {}  # NAMESPACE/PREFIX -> the number that a pod was given last
        self._drawn: tuple[str, int] | None = None  # what numbers the name that was given last, and the number before
        self._models: Recent[_Model] = Recent(MAX_MODELS)
        self._models_of_sets: Recent[_Model] = Recent(MAX_MODELS)  # for this simulation: words about them name a pod
        # NAMESPACE/PREFIX -> the first number that no pod of the snapshot has, where that is not 1
        self._first_free: dict[str, int] = {}
        self.warnings: dict[InputWarning, None] = {}

    def fork(self, snapshot: Snapshot, listers: Listers) -> PodMaker:
        """Return a maker that has created nothing yet; parameters as for a new one.

        Where it starts from the same cluster, the two share what they know of admission.
        """
        forked = PodMaker(snapshot, listers, self._minor)
        if snapshot is self._snapshot:
            forked._models, forked._first_free = self._models, self._first_free
        return forked

    def make(self, owner: Owner, wanted: Create, whole: WholeTemplate | None) -> tuple[PodInfo, str]:
        """Return the pod, and why the API server refuses it; empty when it accepts it.

        `whole`: its whole template, where that is known; otherwise the pod is not validated.
        """
        model, refusal = self._model(owner, wanted, whole)
        self._drawn = None
        name = self._name(owner, wanted)
        pod = model.pod
        labels, owned = pod.metadata.labels, pod.metadata.owner_references
        stateful_set = self._set_of(owner)
        if isinstance(owner, StatefulSetState):
            labels = _numbered(labels, name, wanted.index)
        elif isinstance(owner, JobState):
            template = owner.templates[""]
            if owner.parent is not None and not _depends_on_labels(template.spec):  # the model may be of another run
                labels, owned = template.metadata.labels, (owner.ref.as_controller,)
            if wanted.index is not None:
                labels = {**labels, COMPLETION_INDEX: str(wanted.index)}
        uid = f"{owner.ref.namespace}/{name}#{next(self._uids)}"
        pod = replace(pod, metadata=replace(pod.metadata, name=name, uid=uid, labels=labels, owner_references=owned))
        if stateful_set is not None:
            pod = self.set_claims.mounted(stateful_set, pod)
            missing = self.set_claims.create(stateful_set, pod)
            if missing:
                return PodInfo(pod), missing
        if owner.ref.namespace in self._has_quota:
            pod, refusal = self._admit(pod, whole)
        if refusal and self._drawn is not None:
            numbered, number = self._drawn
            self._numbers[numbered] = number  # the next try gets the same name
            self._used_names.discard(f"{owner.ref.namespace}/{name}")
        stored = self._with_claims(pod)
        info = PodInfo(stored)
        if stored.spec is model.pod.spec and not is_unique(stored):
            is_equal = stored.metadata.labels is model.pod.metadata.labels
            share(model, info, _OF_TEMPLATE if is_equal else _OF_SPEC)
        return info, refusal

    def make_bare(self, pod: Pod, whole: WholeTemplate | None = None) -> tuple[PodInfo, str]:
        """Return a pod without an owner as the API server stores it, and why it refuses it; empty when it accepts."""
        pod, refusal = self._admit(pod, whole)
        uid = f"{pod.metadata.key}#{next(self._uids)}"
        pod = replace(pod, metadata=replace(pod.metadata, uid=uid))
        self._used_names.add(pod.metadata.key)
        return PodInfo(self._with_claims(pod)), refusal

    def leave_free(self, workloads: Iterable[WrittenWorkload]) -> None:
        """Give no pod a name that a pod of manifests has, or one of a stateful set that they are about to make."""
        for workload in workloads:
            metadata = workload.content["metadata"]
            namespace, name = metadata["namespace"], metadata.get("name", "")
            if workload.type is Pod:
                self._used_names.add(f"{namespace}/{name}")
            elif workload.type is StatefulSet:
                self._sets.add((namespace, name))

    def has_claims(self, owner: Owner, info: PodInfo) -> bool:
        """Tell whether a pod has the volumes of a workload's pods, where the workload is a stateful set."""
        stateful_set = self._set_of(owner)
        if stateful_set is None:
            return True
        sources = ((volume.name, volume.persistent_volume_claim) for volume in info.pod.spec.volumes)
        present = {(name, source.claim_name) for name, source in sources if source is not None}
        names = (template.metadata.name for template in stateful_set.spec.volume_claim_templates)
        return all((name, f"{name}-{info.name}") in present for name in names)

    def is_made_by(self, owner: DaemonSetState, info: PodInfo, node: str) -> bool:
        """Tell whether a pod counts as created from the current template of a daemon set.

        So does every pod with the label of its template's generation (upstream IsPodUpdated), which is 1 for a new set.
        Where its revisions are not known, a pod with the fields of a new one counts as having the same hash.
        """
        if info.labels.get(TEMPLATE_GENERATION) == str(owner.generation):
            return True
        if owner.has_revision:
            return info.labels.get(REVISION_HASH) == owner.wanted.revision
        spec, model = info.pod.spec, self._model(owner, Create("", owner.wanted.revision, node=node), None)[0].pod.spec
        is_alike = all(getattr(spec, field) == getattr(model, field) for field in _UNCHANGED)
        return REVISION_HASH in info.labels and is_alike

    def refusal_of(self, what: Named) -> str:
        """Return why the API server refuses a new object; empty where it accepts it, which counts it in quotas."""
        warnings: list[InputWarning] = []
        words = self._admitter.refusal_of_object(what, warnings)
        if warnings:
            self.warnings |= dict.fromkeys(warnings)
        return words

    def _set_of(self, owner: Owner | None) -> StatefulSet | None:
        if not isinstance(owner, StatefulSetState):
            return None
        return self._listers.stateful_sets.get((owner.ref.namespace, owner.ref.name))

    def why_refused(self, pod: Pod, number: int = 0) -> RefusedPods | None:
        """Return the facts for which the API server refuses one more pod; None where it takes it. None is counted.

        `number`: of how many such pods is asked to what quotas have to be raised.
        """
        admitted, quotas = self._admitter.admit(pod), self._admitter.quotas
        if admitted.because is None:
            quotas.release(admitted.pod)
        elif admitted.because.uses and number:
            return replace(admitted.because, raises=tuple(quotas.lacking([(admitted.pod, number)])))
        return admitted.because

    def why_claim_refused(self, stateful_set: str) -> RefusedPods | None:
        """Return the facts for which the API server refuses a claim of a set, NAMESPACE/NAME; None for no such."""
        claim = self.set_claims.refused.get(stateful_set)
        return None if claim is None else self._admitter.why_claim_refused(claim)

    def counts_quota(self, namespace: str) -> bool:
        return namespace in self._has_quota

    def note_end(self, info: PodInfo) -> None:
        """Count a pod that has ended in quotas as an object alone, which stays."""
        if info.namespace in self._has_quota:
            self._admitter.quotas.note_end(info.pod)

    def release(self, info: PodInfo, owner: Owner | None = None, index: int | None = None) -> None:
        """Free the name of a pod that is gone, and its share of quotas; delete claims of this ordinal of a set."""
        stateful_set = self._set_of(owner)
        if stateful_set is not None and isinstance(owner, StatefulSetState) and owner.gives_up_claims_of(index):
            self.set_claims.delete(stateful_set, info.pod.metadata)
        self._used_names.discard(info.key)
        if info.namespace in self._has_quota:
            self._admitter.quotas.release(info.pod)

    def forget_job(self, ref: WorkloadRef, ended: Iterable[Pod]) -> None:
        """Free the shares of quotas of a job that is deleted and of its pods, which have `ended` in the simulation."""
        if ref.namespace not in self._has_quota:
            return
        quotas = self._admitter.quotas
        quotas.release_object(ref.namespace, "batch", "jobs")
        for pod in ended:
            quotas.release(replace(pod, status=replace(pod.status, phase="Succeeded")))
        for pod in self._snapshot.ended_pods.get(ref.key, ()):
            quotas.release(pod)

    def _model(self, owner: Owner, wanted: Create, whole: WholeTemplate | None) -> tuple[PodInfo, str]:
        template = owner.template_of(wanted.revision)
        if wanted.revision not in owner.templates:
            is_newest = "is not in the snapshot, so its pods are created from the newest template"
            unknown = InputWarning("UnknownRevision", owner.ref.key, f"revision {wanted.revision} {is_newest}")
            self.warnings[unknown] = None
        key: tuple[object, ...] = (owner.ref, wanted.revision, wanted.node, id(template.spec), whole is None)
        is_run = isinstance(owner, JobState) and owner.parent is not None
        if is_run and not _depends_on_labels(template.spec):
            key = (owner.workload.key, id(template.spec), whole is None)
        is_of_set = isinstance(owner, StatefulSetState)
        models = self._models_of_sets if is_of_set else self._models
        model = models.find(key)
        if model is None or not (is_run or model.template.metadata == template.metadata):
            model = self._admitted_pod(owner, wanted, whole)
            # Words about a pod of a stateful set, or of a run, have its own name.
            if not (model.refusal and is_of_set) and not (is_run and (model.refusal or model.warnings)):
                models.put(key, model)
        if model.warnings:
            self.warnings |= dict.fromkeys(model.warnings)
        return model.info, model.refusal

    def _admitted_pod(self, owner: Owner, wanted: Create, whole: WholeTemplate | None) -> _Model:
        """Return the next pod of a workload; with quotas it goes through admission later, as each of its pods does."""
        template, name = owner.template_of(wanted.revision), owner.ref.name
        labels = template.metadata.labels
        if isinstance(owner, StatefulSetState | DaemonSetState):
            labels = {**labels, REVISION_HASH: wanted.revision}
        if isinstance(owner, StatefulSetState):
            name = self._name(owner, wanted)
            labels = _numbered(labels, name, wanted.index)
        own, annotations = (owner.ref.as_controller,), template.metadata.annotations
        metadata = PodMeta(
            name=name, namespace=owner.ref.namespace, labels=labels, owner_references=own, annotations=annotations
        )
        pod = Pod(metadata=metadata, spec=template.spec, status=PodStatus(phase="Pending"))
        if isinstance(owner, DaemonSetState):
            pod = pinned(with_tolerations(pod), wanted.node)
        stateful_set = self._set_of(owner)
        if stateful_set is not None:
            pod = self.set_claims.mounted(stateful_set, pod)
        if owner.ref.namespace in self._has_quota or isinstance(owner, ForeignState):
            return _Model(PodInfo(pod), "", (), template)
        admitted = self._admitter.admit(pod, whole)
        return _Model(PodInfo(admitted.pod), admitted.rejected or "", admitted.warnings, template)

    def _admit(self, pod: Pod, whole: WholeTemplate | None) -> tuple[Pod, str]:
        admitted = self._admitter.admit(pod, whole)
        self.warnings |= dict.fromkeys(admitted.warnings)
        return admitted.pod, admitted.rejected or ""

    def _name(self, owner: Owner, wanted: Create) -> str:
        prefix = owner.ref.name
        if isinstance(owner, JobState):
            prefix = prefix if wanted.index is None else f"{prefix}-{wanted.index}"
        elif isinstance(owner, StatefulSetState):
            return f"{prefix}-{wanted.index}"
        elif isinstance(owner, ForeignState) and owner.ref.kind == "StatefulSet":
            return wanted.revision
        set_of_name = owner.ref.namespace, prefix
        if set_of_name in self._sets or set_of_name in self._listers.stateful_sets:
            prefix = f"{prefix}-pod"
        numbered, pods = f"{owner.ref.namespace}/{prefix}", self._snapshot.pod_by_key
        number = self._numbers.get(numbered)
        if number is None:
            if f"{numbered}-1" in pods and numbered not in self._first_free:
                self._first_free[numbered] = next(n for n in count(2) if f"{numbered}-{n}" not in pods)
            number = self._first_free.get(numbered, 1) - 1
        self._drawn = numbered, number
        number += 1
        while (key := f"{numbered}-{number}") in self._used_names or key in pods:
            number += 1
        self._numbers[numbered] = number
        self._used_names.add(key)
        return f"{prefix}-{number}"

    def _with_claims(self, pod: Pod) -> Pod:
        """Create the claims that controllers create for a new pod: for ephemeral volumes, and for devices."""
        claims = self._listers.persistent_volume_claims
        has_ephemeral = pod.spec.volumes and any(volume.ephemeral is not None for volume in pod.spec.volumes)
        if not has_ephemeral and not pod.spec.resource_claims:
            return pod
        pod, generated = generated_claims(pod, self._snapshot)
        for obj in generated:
            metadata = obj.metadata  # type: ignore[attr-defined] # every kind has it
            if isinstance(obj, PersistentVolumeClaim):
                claims[metadata.namespace, metadata.name] = self.set_claims.bind(obj)
            elif isinstance(obj, ResourceClaim):
                self._listers.device_claims.append(complete(obj, type_of(obj)))
        return pod


def _numbered(labels: dict[str, str], name: str, index: int | None) -> dict[str, str]:
    return {**labels, STATEFUL_NAME: name, STATEFUL_INDEX: str(index)}


def _depends_on_labels(spec: PodSpec) -> bool:
    """Tell whether admission reads or changes the labels of a pod with this spec."""
    return bool(
        spec.node_name  # whose zone and region it copies
        or spec.affinity is not None
        or (
            spec.topology_spread_constraints
            and any(constraint.match_label_keys for constraint in spec.topology_spread_constraints)
        )
    )


def become(info: PodInfo, pod: Pod) -> PodInfo:
    """Return a pod as it is now: its status and times are others, and all that is derived from it is the same."""
    changed = PodInfo(pod, info.own_key, info.resources)
    changed.__dict__.update(info.__dict__)
    return changed


def share(model: PodInfo, info: PodInfo, names: Iterable[str]) -> None:
    """Copy the cached properties of a pod to another pod of the same template, or with the same spec."""
    info.shared_resources = model.resources
    known, own = model.__dict__, info.__dict__
    for name in names:
        if name not in known:
            getattr(model, name)
        own[name] = known[name]
