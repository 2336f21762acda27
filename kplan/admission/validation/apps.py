"""Deployments, replica sets, stateful sets, daemon sets and replication controllers.

Upstream: pkg/apis/apps/validation, pkg/apis/core/validation ValidateReplicationController.
"""

from __future__ import annotations

from typing import Any

from kplan.admission.validation.claims import claim_spec_errors
from kplan.admission.validation.errors import (
    NEGATIVE,
    Errors,
    GoStruct,
    enum_errors,
    forbidden,
    invalid,
    invalids,
    not_negative,
    not_supported,
    required,
)
from kplan.admission.validation.metadata import metadata_errors, selector_errors, selector_matches, shown_selector
from kplan.admission.validation.pods import restart_policy_errors, template_errors
from kplan.admission.validation.texts import dns_label, dns_label_error, dns_subdomain, percent
from kplan.api.names import dns_subdomain_problems

Object = dict[str, Any]
_UNMATCHED = "`selector` does not match template `labels`"
_UNREADABLE = "invalid label selector"


def deployment_errors(obj: Object) -> Errors:
    """Return what is wrong with a deployment."""
    spec = obj.get("spec", {})
    errors = metadata_errors(obj.get("metadata", {}), dns_subdomain) + not_negative(spec, "spec", "replicas")
    errors += _selector_errors(spec, "deployment") + _template_errors(spec, "ReplicaSet", _UNREADABLE)
    errors += _strategy_errors(spec.get("strategy", {}), "spec.strategy")
    errors += not_negative(spec, "spec", "minReadySeconds", "revisionHistoryLimit")
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None:
        errors += not_negative(spec, "spec", "progressDeadlineSeconds")
        if deadline <= spec.get("minReadySeconds", 0):
            detail = "must be greater than minReadySeconds"
            errors.append(invalid("spec.progressDeadlineSeconds", deadline, detail))
    return errors


def replica_set_errors(obj: Object) -> Errors:
    """Return what is wrong with a replica set."""
    spec = obj.get("spec", {})
    errors = metadata_errors(obj.get("metadata", {}), dns_subdomain)
    errors += not_negative(spec, "spec", "replicas", "minReadySeconds")
    return errors + _selector_errors(spec, "deployment") + _template_errors(spec, "ReplicaSet", _UNREADABLE)


def replication_controller_errors(obj: Object) -> Errors:
    """Return what is wrong with a replication controller."""
    spec = obj.get("spec", {})
    selector, template = spec.get("selector", {}), spec.get("template")
    # Unlike the other kinds it does not check generateName, and its messages say bytes, not characters.
    errors = metadata_errors(obj.get("metadata", {}), dns_subdomain_problems, checks_prefix=False)
    errors += not_negative(spec, "spec", "minReadySeconds")
    if not selector:
        errors.append(required("spec.selector"))
    errors += not_negative(spec, "spec", "replicas")
    if template is None:
        return [*errors, required("spec.template")]
    labels = template.get("metadata", {}).get("labels")
    if any((labels or {}).get(key) != value for key, value in selector.items()):
        errors.append(invalid("spec.template.metadata.labels", labels, _UNMATCHED))
    errors += template_errors(template, "spec.template")
    return errors + restart_policy_errors(template.get("spec", {}), "ReplicationController", "spec.template.spec")


def stateful_set_errors(obj: Object) -> Errors:
    """Return what is wrong with a stateful set."""
    spec = obj.get("spec", {})
    errors = metadata_errors(obj.get("metadata", {}), dns_label)
    policy = spec.get("podManagementPolicy", "")
    if policy not in ("OrderedReady", "Parallel"):
        errors.append(invalid("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'"))
    errors += _update_errors(spec.get("updateStrategy", {}), "spec.updateStrategy")
    for key, retention in spec.get("persistentVolumeClaimRetentionPolicy", {}).items():
        at = f"spec.persistentVolumeClaimRetentionPolicy.{key}"
        errors += enum_errors(retention, ("Retain", "Delete"), at)
    for index, claim in enumerate(spec.get("volumeClaimTemplates", [])):
        errors += claim_spec_errors(claim.get("spec", {}), f"spec.volumeClaimTemplates[{index}].spec")
    errors += not_negative(spec, "spec", "replicas", "minReadySeconds")
    errors += not_negative(spec.get("ordinals", {}), "spec.ordinals", "start")
    if spec.get("serviceName"):
        errors += dns_label_error(spec["serviceName"], "spec.serviceName")
    errors += _selector_errors(spec, "statefulset")
    template = spec.get("template", {})
    errors += _template_errors({**spec, "template": _with_claims(template, spec)}, "", "")
    return errors + restart_policy_errors(template.get("spec", {}), "StatefulSet", "spec.template.spec")


def _with_claims(template: Object, spec: Object) -> Object:
    """Return the template with volumes for its claim templates, and without the host names of its pods."""
    names = [claim.get("metadata", {}).get("name", "") for claim in spec.get("volumeClaimTemplates", [])]
    pod = {key: value for key, value in template.get("spec", {}).items() if key not in ("subdomain", "hostname")}
    if names:
        claim_volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in dict.fromkeys(names)]
        pod["volumes"] = [
            *claim_volumes,
            *(volume for volume in pod.get("volumes", []) if volume.get("name", "") not in names),
        ]
    return {**template, "spec": pod}


def _update_errors(strategy: Object, path: str) -> Errors:
    kind, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
    if kind == "OnDelete":
        if rolling is None:
            return []
        return [
            invalid(
                f"{path}.rollingUpdate", _shown_partition(rolling), "only allowed for updateStrategy 'RollingUpdate'"
            )
        ]
    if kind != "RollingUpdate":
        shown = GoStruct({"Type": kind, "RollingUpdate": _shown_partition(rolling)})
        return [invalid(path, shown, "must be 'RollingUpdate' or 'OnDelete'")]
    return [] if rolling is None else not_negative(rolling, f"{path}.rollingUpdate", "partition")


def _shown_partition(rolling: Object | None) -> GoStruct | None:
    if rolling is None:
        return None
    return GoStruct({"Partition": rolling.get("partition", 0), "MaxUnavailable": rolling.get("maxUnavailable")})


def daemon_set_errors(obj: Object) -> Errors:
    """Return what is wrong with a daemon set."""
    spec = obj.get("spec", {})
    selector, template = spec.get("selector"), spec.get("template", {})
    labels = template.get("metadata", {}).get("labels")
    errors = metadata_errors(obj.get("metadata", {}), dns_subdomain)
    errors += selector_errors(selector, "spec.selector")
    if selector_matches(selector, labels or {}) is False:
        errors.append(invalid("spec.template.metadata.labels", labels, _UNMATCHED))
    if selector is not None and not _says_something(selector):
        errors.append(invalid("spec.selector", shown_selector(selector), "empty selector is invalid for daemonset"))
    errors += template_errors(template, "spec.template")
    errors += restart_policy_errors(template.get("spec", {}), "DaemonSet", "spec.template.spec")
    errors += not_negative(spec, "spec", "minReadySeconds")
    strategy = spec.get("updateStrategy", {})
    kind, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
    if kind == "RollingUpdate":
        errors += _daemon_rolling_errors(rolling or {}, "spec.updateStrategy.rollingUpdate")
    elif kind != "OnDelete":
        shown = GoStruct({"Type": kind, "RollingUpdate": _shown_shares(rolling)})
        errors.append(not_supported("spec.updateStrategy", shown, ("RollingUpdate", "OnDelete")))
    return errors + not_negative(spec, "spec", "revisionHistoryLimit")


def _daemon_rolling_errors(rolling: Object, path: str) -> Errors:
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    errors = share_errors(unavailable, f"{path}.maxUnavailable") + share_errors(surge, f"{path}.maxSurge")
    errors += above_all_errors(unavailable, f"{path}.maxUnavailable") + above_all_errors(surge, f"{path}.maxSurge")
    if _number(unavailable) and _number(surge):
        errors.append(invalid(f"{path}.maxSurge", surge, "may not be set when maxUnavailable is non-zero"))
    if not _number(unavailable) and not _number(surge):
        errors.append(required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0"))
    return errors


def _strategy_errors(strategy: Object, path: str) -> Errors:
    kind, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
    if kind == "Recreate":
        detail = "may not be specified when strategy `type` is 'Recreate'"
        return [] if rolling is None else [forbidden(f"{path}.rollingUpdate", detail)]
    if kind != "RollingUpdate":
        shown = GoStruct({"Type": kind, "RollingUpdate": _shown_shares(rolling)})
        return [not_supported(path, shown, ("Recreate", "RollingUpdate"))]
    rolling, at = rolling or {}, f"{path}.rollingUpdate"
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    errors = share_errors(unavailable, f"{at}.maxUnavailable") + share_errors(surge, f"{at}.maxSurge")
    if not _number(unavailable) and not _number(surge):
        errors.append(invalid(f"{at}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0"))
    return errors + above_all_errors(unavailable, f"{at}.maxUnavailable")


def _shown_shares(rolling: Object | None) -> GoStruct | None:
    if rolling is None:
        return None
    return GoStruct({"MaxUnavailable": rolling.get("maxUnavailable", 0), "MaxSurge": rolling.get("maxSurge", 0)})


def share_errors(share: int | str, path: str) -> Errors:
    """Check a number or percentage (upstream ValidatePositiveIntOrPercent)."""
    if isinstance(share, str):
        return invalids(path, share, percent(share))
    return [invalid(path, share, NEGATIVE)] if share < 0 else []


def above_all_errors(share: int | str, path: str) -> Errors:
    """Refuse more than all (upstream IsNotMoreThan100Percent)."""
    is_percent = isinstance(share, str) and not percent(share)
    return [invalid(path, share, "must not be greater than 100%")] if is_percent and _number(share) > 100 else []


def _number(share: int | str) -> int:
    """Return the number in a number or percentage; 0 for another text (upstream getIntOrPercentValue)."""
    if isinstance(share, int):
        return share
    text = share.removesuffix("%") if not percent(share) else share
    return int(text[:19]) if text.isascii() and text.removeprefix("-").isdigit() else 0


def _selector_errors(spec: Object, called: str) -> Errors:
    selector = spec.get("selector")
    if selector is None:
        return [required("spec.selector")]
    errors = selector_errors(selector, "spec.selector")
    if not _says_something(selector):
        errors.append(invalid("spec.selector", shown_selector(selector), f"empty selector is invalid for {called}"))
    return errors


def _says_something(selector: Object) -> bool:
    return bool(selector.get("matchLabels") or selector.get("matchExpressions"))


def _template_errors(spec: Object, owner: str, unreadable: str) -> Errors:
    selector, template = spec.get("selector"), spec.get("template", {})
    labels = template.get("metadata", {}).get("labels")
    fits = selector_matches(selector, labels or {})
    if fits is None:
        return [invalid("spec.selector", shown_selector(selector or {}), unreadable)]
    errors = [] if fits else [invalid("spec.template.metadata.labels", labels, _UNMATCHED)]
    errors += template_errors(template, "spec.template")
    return errors + (restart_policy_errors(template.get("spec", {}), owner, "spec.template.spec") if owner else [])
