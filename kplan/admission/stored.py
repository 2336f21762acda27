"""A pod as the API server stores it: the manifest's object with all that is filled in, and by what.

Controllers and admission work on the part of a pod that scheduling reads; what they change there is carried over to the
whole object. Here it gets its account and token, and is told what mirror pods must not use; whether the account exists
is checked in :mod:`kplan.admission`.
Upstream: pkg/registry/core/pod strategy.go, applyAppArmorVersionSkew; plugin/pkg/admission/serviceaccount, limitranger.
"""

from __future__ import annotations

import copy
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from kplan.admission.defaults import default_pod, fill_in
from kplan.admission.gates import NEWEST, drop_disabled, is_on
from kplan.admission.limits import qos_class
from kplan.admission.podsecurity import Policy, violations
from kplan.admission.validation.checks import Object, reached
from kplan.admission.validation.pod_fields import app_armor_errors, containers_with_path
from kplan.admission.validation.pods import APP_ARMOR, LOCALHOST, MIRROR, pod_errors
from kplan.api.affinity import REQUIRED, required_node_affinity
from kplan.api.core import Pod, PodSpec, ServiceAccount
from kplan.api.decode import convert
from kplan.api.field_errors import FieldError, errors_in, invalid_words
from kplan.api.labels import COMPLETION_INDEX, GATED_CONDITION
from kplan.api.names import GENERATED_LETTERS, generated_uid, in_letters
from kplan.api.pod import SCHEDULED
from kplan.api.quantity import stored
from kplan.facts import Document

_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
_ACCOUNT_VOLUME = "kube-api-access-"  #: begins the name of the volume with the token
_TOKEN_SECONDS = 3607
_FILE_MODE = 0o644
_WITH_SECRET = ("cephfs", "cinder", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos")
_SECRETS = (
    *("imagePullSecrets.name", "*.envFrom.secretRef.name", "*.env.valueFrom.secretKeyRef.name"),
    *("volumes.azureFile.secretName", "volumes.secret.secretName", "volumes.projected.sources.secret.name"),
    *(f"volumes.{key}.secretRef.name" for key in _WITH_SECRET),
    "volumes.csi.nodePublishSecretRef.name",
)
"""The paths of the names of secrets in the spec of a pod (upstream VisitPodSecretNames)."""

_TYPES = {"unconfined": "Unconfined", "runtime/default": "RuntimeDefault"}
_TEMPLATE_METADATA = ("labels", "annotations", "finalizers")  #: template metadata that controllers copy into their pods

_JOB_FINALIZER = "batch.kubernetes.io/job-tracking"
_JOB_INDEX_VARIABLE = "JOB_COMPLETION_INDEX"
_OBSOLETE = frozenset(
    f"pod.{stage}.kubernetes.io/{what}"
    for stage in ("alpha", "beta")
    for what in ("init-containers", "init-container-statuses")
)
"""Annotations that the API server drops, as fields have replaced them."""

_LIMIT_RANGER = "kubernetes.io/limit-ranger"
_TERM_PATHS = tuple(
    f"affinity.{kind}.{terms}"
    for kind in ("podAffinity", "podAntiAffinity")
    for terms in (REQUIRED, "preferredDuringSchedulingIgnoredDuringExecution.podAffinityTerm")
)


def add_service_account(pod: Object, account: ServiceAccount) -> None:
    """Add the default account to a pod, its secrets for images, and a token volume; not to mirror pods.

    A pod that has such secrets or such a volume keeps them, and pod or account may say that there is no token.
    """
    spec = pod["spec"]
    if MIRROR in pod["metadata"].get("annotations", {}):
        return
    if not spec.get("serviceAccountName"):
        spec["serviceAccountName"] = spec["serviceAccount"] = "default"
    if account.image_pull_secrets and not spec.get("imagePullSecrets"):
        spec["imagePullSecrets"] = [{"name": secret.name} for secret in account.image_pull_secrets]
    if spec.get("automountServiceAccountToken", account.automount_service_account_token) is False:
        return
    without = [
        container
        for container in (*spec.get("initContainers", []), *spec.get("containers", []))
        if all(mount.get("mountPath") != _PATH for mount in container.get("volumeMounts", []))
    ]
    if not without:
        return
    volumes = spec.setdefault("volumes", [])
    names = (volume.get("name", "") for volume in volumes)
    present = next((name for name in names if name.startswith(_ACCOUNT_VOLUME)), "")
    metadata, n_letters = pod["metadata"], len(GENERATED_LETTERS)
    number = zlib.crc32(f"{metadata.get('namespace', '')}/{metadata.get('name', '')}".encode())
    # The API server takes random letters.
    suffix = in_letters(bytes(number // n_letters**place % n_letters for place in range(5)))
    name = present or f"{_ACCOUNT_VOLUME}{suffix}"
    for container in without:
        mount = {"name": name, "readOnly": True, "mountPath": _PATH}
        container.setdefault("volumeMounts", []).append(mount)
    if present:
        return
    own_namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    sources = [
        {"serviceAccountToken": {"expirationSeconds": _TOKEN_SECONDS, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [own_namespace]}},
    ]
    volumes.append({"name": name, "projected": {"sources": sources, "defaultMode": _FILE_MODE}})


class FilledField(Document, frozen=True):
    """A field whose value the manifest does not state."""

    field: str
    value: Any  #: its value now; null for a field that was removed
    source: str  #: what filled it in, such as LimitRange limited/limits


class Stage(msgspec.Struct, frozen=True):
    """A pod after a plugin; `source` is the object or plugin that changed it, such as ``LimitRange limited/limits``."""

    source: str
    pod: Pod


def created_pod(template: Object, pod: Pod, *, service_name: str = "") -> Object:
    """Return the pod that a controller creates from a template, or a manifest's pod, as it is sent to the API server.

    `pod` has the fields that scheduling reads, with name, owner and what the controller adds; `service_name` is the
    governing service of a stateful set, the subdomain of its pods.
    """
    written: Object = copy.deepcopy(template.get("metadata", {}))
    is_pod = template.get("kind") == "Pod"
    if not is_pod:
        written = {key: value for key, value in written.items() if key in _TEMPLATE_METADATA}
    # The API server keeps its own record of field managers.
    written.pop("managedFields", None)
    own = {"name": pod.metadata.name} if pod.metadata.name else {}
    own["namespace"] = pod.metadata.namespace
    metadata: Object = {**own, **written, **own}
    if pod.metadata.owner_references and not is_pod:
        metadata["ownerReferences"] = [
            {"uid": generated_uid(owner.kind, pod.metadata.namespace, owner.name), **msgspec.to_builtins(owner)}
            | {"blockOwnerDeletion": True}
            for owner in pod.metadata.owner_references
        ]
    if annotations := metadata.get("annotations"):
        _set(metadata, "annotations", {key: value for key, value in annotations.items() if key not in _OBSOLETE})
    created: Object = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
    created["spec"] = spec = copy.deepcopy(template.get("spec", {}))
    _impress(created, pod)
    if not is_pod:
        _add_claims(spec, pod)
        _add_job_fields(created, pod)
        if any(owner.kind == "StatefulSet" for owner in pod.metadata.owner_references):
            # Whatever the template has (pkg/controller/statefulset/stateful_set_utils.go initIdentity).
            spec["hostname"] = pod.metadata.name
            _set(spec, "subdomain", service_name)
    # Copy the node affinity that a daemon set's controller adds.
    required = required_node_affinity(pod.spec.affinity)
    if required is not None and any(term.match_fields for term in required.node_selector_terms):
        whole: Object = spec.setdefault("affinity", {})
        whole.setdefault("nodeAffinity", {})[REQUIRED] = msgspec.to_builtins(required)
    return created


def _add_job_fields(created: Object, pod: Pod) -> None:
    """Add what a job's controller adds: its finalizer, and for indexed jobs the index."""
    owner = next((owner for owner in pod.metadata.owner_references if owner.kind == "Job"), None)
    if owner is None:
        return
    metadata, spec = created["metadata"], created["spec"]
    metadata["finalizers"] = list(dict.fromkeys([*metadata.get("finalizers", []), _JOB_FINALIZER]))
    if (index := pod.metadata.labels.get(COMPLETION_INDEX)) is None:
        return
    metadata.setdefault("annotations", {})[COMPLETION_INDEX] = index
    spec["hostname"] = f"{owner.name}-{index}"
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{COMPLETION_INDEX}']"}}
    for container in (*spec.get("initContainers", []), *spec.get("containers", [])):
        variables = container.setdefault("env", [])
        if all(variable.get("name") != _JOB_INDEX_VARIABLE for variable in variables):
            variables.append({"name": _JOB_INDEX_VARIABLE, "valueFrom": copy.deepcopy(source)})


def _add_claims(spec: Object, pod: Pod) -> None:
    """Copy the volumes that a stateful set's controller adds."""
    stated = {volume.get("name", ""): volume for volume in spec.get("volumes", [])}
    added = {
        volume.name: {"name": volume.name, "persistentVolumeClaim": msgspec.to_builtins(volume.persistent_volume_claim)}
        for volume in pod.spec.volumes
        if volume.persistent_volume_claim is not None and "persistentVolumeClaim" not in stated.get(volume.name, {})
    }
    if added:
        others = (volume for volume in spec.get("volumes", []) if volume.get("name") not in added)
        spec["volumes"] = [*added.values(), *others]


def _impress(obj: Object, pod: Pod) -> None:
    """Copy the fields that controllers and admission change."""
    metadata, spec = obj["metadata"], obj["spec"]
    _set(metadata, "labels", dict(pod.metadata.labels))
    if note := pod.metadata.annotations.limit_ranger:
        metadata.setdefault("annotations", {})[_LIMIT_RANGER] = note
    plain: Object = msgspec.to_builtins(pod.spec)
    for key in ("tolerations", "nodeSelector", "priorityClassName", "priority", "preemptionPolicy"):
        _set(spec, key, plain.get(key))
    _set(spec, "overhead", _amounts(pod.spec.overhead))
    for group, containers in (("containers", pod.spec.containers), ("initContainers", pod.spec.init_containers)):
        for written, container in zip(spec.get(group, []), containers, strict=False):
            resources: Object = written.setdefault("resources", {})
            _set(resources, "limits", _amounts(container.resources.limits))
            _set(resources, "requests", _amounts(container.resources.requests))


def _amounts(amounts: dict[str, Any]) -> dict[str, str]:
    return {name: stored(amount) for name, amount in amounts.items()}


def _set(obj: Object, key: str, value: Any) -> None:
    if value in (None, {}, [], ""):
        obj.pop(key, None)
    else:
        obj[key] = value


def for_validation(template: Object, pod: Pod, minor: int = NEWEST) -> Object:
    """Return a pod as it is validated: with defaults and the changes of admission."""
    obj = created_pod(default_pod(copy.deepcopy(template)), pod)
    fill_in(obj["spec"], "V1PodSpec")
    list(_finish(obj, minor, ServiceAccount()))
    return obj


def _finish(obj: Object, minor: int, account: ServiceAccount) -> Iterator[str]:
    """Change a pod as the API server does after its plugins; yield the source of each change that is made."""
    add_service_account(obj, account)
    yield f"ServiceAccount {obj['spec'].get('serviceAccountName', '')}"
    drop_disabled(obj["spec"], minor)
    yield "feature gate that is off"
    _merge_label_keys(obj, minor)
    yield "matchLabelKeys"
    take_profiles_from_annotations(obj)
    yield "annotation of AppArmor"


def filled_in(
    created: Object, stages: Sequence[Stage], account: ServiceAccount | None, minor: int = NEWEST
) -> Iterator[tuple[str, Object]]:
    """Yield the source of each step and the pod after it; the last is the stored pod."""
    obj = default_pod(copy.deepcopy(created))
    yield "default", copy.deepcopy(obj)
    for stage in stages:
        _impress(obj, stage.pod)
        yield stage.source, copy.deepcopy(obj)
    for source in _finish(obj, minor, account or ServiceAccount()):
        yield source, copy.deepcopy(obj)
    obj["metadata"]["generation"] = 1
    obj["status"] = {"phase": "Pending", "qosClass": qos_class(convert(obj["spec"], PodSpec))}
    if obj["spec"].get("schedulingGates"):
        condition = {"type": SCHEDULED, "status": "False", "lastProbeTime": None, "reason": "SchedulingGated"}
        obj["status"]["conditions"] = [{**condition, "message": GATED_CONDITION}]
    yield "API server", obj


def _merge_label_keys(obj: Object, minor: int) -> None:
    """Merge label keys as the API server shows it; what scheduling reads has them merged once, where it is built."""
    labels, spec = obj["metadata"].get("labels", {}), obj["spec"]
    terms = [term for path in _TERM_PATHS for term in reached(spec, path)]
    if is_on("MatchLabelKeysInPodTopologySpreadSelectorMerge", minor):
        terms += spec.get("topologySpreadConstraints", [])
    for term in terms:
        for name, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
            for key in term.get(name, []) if "labelSelector" in term else ():
                if key in labels:
                    expression = {"key": key, "operator": operator, "values": [labels[key]]}
                    term["labelSelector"].setdefault("matchExpressions", []).append(expression)


def changes_between(before: Any, after: Any, source: str, path: str = "") -> Iterator[FilledField]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in [*after, *(key for key in before if key not in after)]:
            plain = key.replace("-", "a").isidentifier()
            step = key if plain else f"[{key!r}]"
            at = f"{path}.{step}" if path and plain else f"{path}{step}"
            if key not in after:
                yield FilledField(at, None, source)
            elif isinstance(after[key], dict) and after[key]:
                yield from changes_between(before.get(key, {}), after[key], source, at)
            elif key not in before:
                yield FilledField(at, after[key], source)
            else:
                yield from changes_between(before[key], after[key], source, at)
    elif isinstance(before, list) and isinstance(after, list):
        for index, value in enumerate(after):
            at = f"{path}[{index}]"
            if index < len(before):
                yield from changes_between(before[index], value, source, at)
            else:
                yield FilledField(at, value, source)
    elif before != after:
        yield FilledField(path, after, source)


def take_profiles_from_annotations(pod: dict[str, Any]) -> None:
    """Set containers' profiles from annotations where the field is empty and the pod's profile is another."""
    annotations, spec = pod["metadata"].get("annotations", {}), pod["spec"]
    if spec.get("os", {}).get("name") == "windows" or not any(key.startswith(APP_ARMOR) for key in annotations):
        return
    whole = spec.get("securityContext", {}).get("appArmorProfile")
    for container, _ in containers_with_path(spec, ""):
        written = annotations.get(APP_ARMOR + container.get("name", ""))
        if written is None or "appArmorProfile" in container.get("securityContext", {}):
            continue
        profile = {"type": _TYPES.get(written, "")}
        if written.startswith(LOCALHOST):
            profile = {"type": "Localhost", "localhostProfile": written.removeprefix(LOCALHOST)}
        if profile != whole and not any(app_armor_errors(profile, "")):
            container.setdefault("securityContext", {})["appArmorProfile"] = profile


class WholeTemplate:
    """A decoded pod manifest or pod template: ``metadata`` and ``spec``.

    Admission works on the fields of a pod that scheduling reads. The others are the same for all pods created from it,
    so that one check serves all of them.
    """

    def __init__(self, template: dict[str, Any]) -> None:
        self.errors: tuple[FieldError, ...] | None = None  #: what is invalid in its pods; None before the first check
        self._template = template
        self._spec: Object = template.get("spec", {})
        self._is_mirror = MIRROR in template.get("metadata", {}).get("annotations", {})
        self._forbidden: dict[Policy, str] = {}

    def unaccountable(self) -> str:
        """Return why its mirror pods, by which kubelets show static pods, are forbidden; "" where they are not."""
        if not self._is_mirror:
            return ""
        if self._spec.get("serviceAccountName") or self._spec.get("serviceAccount"):
            return "a mirror pod may not reference service accounts"
        if any(any(reached(self._spec, path)) for path in _SECRETS):
            return "a mirror pod may not reference secrets"
        has_token = next(reached(self._spec, "volumes.projected.sources.serviceAccountToken"), None) is not None
        return "a mirror pod may not use ServiceAccountToken volume projections" if has_token else ""

    def account(self) -> str:
        """Return the name of the service account of its pods; "" for mirror pods, which this plugin leaves alone."""
        own = self._spec.get("serviceAccountName") or self._spec.get("serviceAccount") or "default"
        return "" if self._is_mirror else str(own)

    def invalid(self, pod: Pod, minor: int = NEWEST) -> str:
        """Return the API server's answer to an invalid pod after admission; "" where it is valid."""
        if self.errors is None:
            self.errors = errors_in(minor, pod_errors(for_validation(self._template, pod, minor)))
        return invalid_words("Pod", "", pod.metadata.name, self.errors) if self.errors else ""

    def insecure(self, pod: Pod, policy: Policy) -> str:
        """Return how one of its pods violates a policy; "" where it does not."""
        if policy not in self._forbidden:
            whole = for_validation(self._template, pod, policy.newest) if policy.is_demanding else {}
            self._forbidden[policy] = violations(policy, whole)
        return self._forbidden[policy]
