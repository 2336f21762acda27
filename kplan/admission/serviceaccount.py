"""ServiceAccount: a pod's account and token, and what mirror pods must not use (plugin/pkg/admission/serviceaccount).

Whether a pod's account exists is checked in :mod:`kplan.admission.admit`, where the snapshot holds service accounts.
"""

from __future__ import annotations

from kplan.admission.validation.checks import Object, reached

_MIRROR = "kubernetes.io/config.mirror"
_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
_TOKEN_SECONDS = 3607
_FILE_MODE = 0o644
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_WITH_SECRET = ("cephfs", "cinder", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos")
_SECRETS = (
    *("imagePullSecrets.name", "*.envFrom.secretRef.name", "*.env.valueFrom.secretKeyRef.name"),
    *("volumes.azureFile.secretName", "volumes.secret.secretName", "volumes.projected.sources.secret.name"),
    *(f"volumes.{key}.secretRef.name" for key in _WITH_SECRET),
    "volumes.csi.nodePublishSecretRef.name",
)
"""The paths of the names of secrets in the spec of a pod (upstream VisitPodSecretNames)."""


def mirror_problem(pod: Object) -> str:
    """Return why a mirror pod, by which a kubelet shows a static pod, is forbidden; "" for other pods."""
    if _MIRROR not in pod.get("metadata", {}).get("annotations", {}):
        return ""
    spec = pod.get("spec", {})
    if spec.get("serviceAccountName") or spec.get("serviceAccount"):
        return "a mirror pod may not reference service accounts"
    if any(any(reached(spec, path)) for path in _SECRETS):
        return "a mirror pod may not reference secrets"
    if next(reached(spec, "volumes.projected.sources.serviceAccountToken"), None) is not None:
        return "a mirror pod may not use ServiceAccountToken volume projections"
    return ""


def account_of(pod: Object) -> str:
    """Return the name of a pod's service account; "" for a mirror pod, which this plugin leaves alone."""
    if _MIRROR in pod.get("metadata", {}).get("annotations", {}):
        return ""
    spec = pod.get("spec", {})
    return str(spec.get("serviceAccountName") or spec.get("serviceAccount") or "default")


def add_service_account(pod: Object) -> None:
    """Add the default account to a pod, and a token volume unless it opts out; mirror pods stay unchanged."""
    spec = pod["spec"]
    if _MIRROR in pod["metadata"].get("annotations", {}):
        return
    if not spec.get("serviceAccountName"):
        spec["serviceAccountName"] = spec["serviceAccount"] = "default"
    if spec.get("automountServiceAccountToken") is False:
        return
    containers = [*spec.get("initContainers", []), *spec.get("containers", [])]
    without = [
        container
        for container in containers
        if all(mount.get("mountPath") != _PATH for mount in container.get("volumeMounts", []))
    ]
    if not without:
        return
    name = f"kube-api-access-{_suffix(pod['metadata'])}"
    for container in without:
        mount = {"name": name, "readOnly": True, "mountPath": _PATH}
        container.setdefault("volumeMounts", []).append(mount)
    own_namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    sources = [
        {"serviceAccountToken": {"expirationSeconds": _TOKEN_SECONDS, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [own_namespace]}},
    ]
    projected = {"sources": sources, "defaultMode": _FILE_MODE}
    spec.setdefault("volumes", []).append({"name": name, "projected": projected})


def _suffix(metadata: Object) -> str:
    """Return five characters in place of the API server's random ones."""
    import hashlib

    name = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
    digest = hashlib.sha256(name.encode()).digest()
    return "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in digest[:5])
