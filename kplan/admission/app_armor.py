"""AppArmor profiles in annotations, copied to fields (pkg/registry/core/pod applyAppArmorVersionSkew)."""

from __future__ import annotations

from typing import Any

from kplan.admission.validation.security import app_armor_errors
from kplan.admission.validation.windows import containers_with_path

_ANNOTATION = "container.apparmor.security.beta.kubernetes.io/"
_LOCALHOST = "localhost/"
_TYPES = {"unconfined": "Unconfined", "runtime/default": "RuntimeDefault"}


def take_profiles_from_annotations(pod: dict[str, Any]) -> None:
    """Set containers' profiles from annotations where the field is empty and the pod's profile is another."""
    annotations, spec = pod["metadata"].get("annotations", {}), pod["spec"]
    if spec.get("os", {}).get("name") == "windows" or not any(key.startswith(_ANNOTATION) for key in annotations):
        return
    whole = spec.get("securityContext", {}).get("appArmorProfile")
    for container, _ in containers_with_path(spec, ""):
        written = annotations.get(_ANNOTATION + container.get("name", ""))
        if written is None or "appArmorProfile" in container.get("securityContext", {}):
            continue
        profile = _profile(written)
        if profile is not None and profile != whole and not any(app_armor_errors(profile, "")):
            container.setdefault("securityContext", {})["appArmorProfile"] = profile


def _profile(annotation: str) -> dict[str, str] | None:
    if annotation in _TYPES:
        return {"type": _TYPES[annotation]}
    if annotation.startswith(_LOCALHOST):
        name = annotation.removeprefix(_LOCALHOST)
        return {"type": "Localhost", "localhostProfile": name} if name else None
    return None
