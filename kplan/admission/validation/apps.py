"""Deployments, replica sets, stateful sets, daemon sets and replication controllers.

Upstream: pkg/apis/apps/validation, pkg/apis/core/validation ValidateReplicationController.
"""

from __future__ import annotations

from kplan.admission.validation.checks import (
    Check,
    Errors,
    Object,
    field,
    filled,
    forbidden,
    go_struct,
    invalid,
    items,
    must,
    needed,
    not_negative,
    not_supported,
    one_of,
    present,
    required,
    rules,
)
from kplan.admission.validation.metadata import (
    LABEL,
    dns_label,
    metadata,
    of_kind,
    percent,
    selector_errors,
    selector_matches,
    shown_selector,
)
from kplan.admission.validation.pods import restart_policy, template_errors
from kplan.admission.validation.volumes import claim_spec_errors
from kplan.api.names import dns_subdomain_problems

_UNMATCHED = "`selector` does not match template `labels`"


_RECREATE = "Recreate"
FIRST_WITH_RECREATE = 37
"""The first minor whose StatefulSets have the update strategy Recreate, behind a gate that is off by default."""


def _something(called: str) -> Check:
    words = f"empty selector is invalid for {called}"

    def check(selector: Object, path: str) -> Errors:
        if not selector.get("matchLabels") and not selector.get("matchExpressions"):
            yield invalid(path, shown_selector(selector), words)

    return check


def label_match_errors(spec: Object, path: str) -> Errors:
    """Return an error for a template whose labels the selector does not match; an invalid selector passes."""
    labels = spec.get("template", {}).get("metadata", {}).get("labels")
    if selector_matches(spec.get("selector"), labels or {}) is False:
        yield invalid(f"{path}.template.metadata.labels", labels, _UNMATCHED)


def _template(owner: str, unreadable: str = "invalid label selector") -> Check:
    check = rules(
        label_match_errors,
        field("template", template_errors, absent={}),
        field("template", restart_policy(owner), absent={}) if owner else rules(),
    )

    def errors(spec: Object, path: str) -> Errors:
        selector = spec.get("selector")
        if selector is not None and any(selector_errors(selector, "")):
            return [invalid(f"{path}.selector", shown_selector(selector), unreadable)]
        return check(spec, path)

    return errors


def share_errors(share: int | str, path: str) -> Errors:
    """Check a number or percentage (upstream ValidatePositiveIntOrPercent)."""
    if isinstance(share, int):
        return not_negative(share, path)
    return [invalid(path, share, problem) for problem in percent(share)]


def above_all_errors(share: int | str, path: str) -> Errors:
    """Refuse more than all (upstream IsNotMoreThan100Percent)."""
    if isinstance(share, str) and not percent(share) and _number(share) > 100:
        yield invalid(path, share, "must not be greater than 100%")


def _number(share: int | str) -> int:
    """Return the number in a number or percentage; 0 for another text (upstream getIntOrPercentValue)."""
    if isinstance(share, int):
        return share
    text = share.removesuffix("%") if not percent(share) else share
    return int(text[:19]) if text.isascii() and text.removeprefix("-").isdigit() else 0


_SURGING = {"MaxUnavailable": 0, "MaxSurge": 0}
_PARTITIONED = {"Partition": 0, "MaxUnavailable": None}


def _strategy_errors(strategy: Object, path: str) -> Errors:
    kind, rolling, at = strategy.get("type", ""), strategy.get("rollingUpdate", {}), f"{path}.rollingUpdate"
    if kind == "Recreate":
        if "rollingUpdate" in strategy:
            yield forbidden(at, "may not be specified when strategy `type` is 'Recreate'")
        return
    if kind != "RollingUpdate":
        shown = go_struct(strategy, Type="", RollingUpdate=_SURGING)
        yield not_supported(path, shown, ("Recreate", "RollingUpdate"))
        return
    unavailable = rolling.get("maxUnavailable", 0)
    yield from field("maxUnavailable maxSurge", share_errors)(rolling, at)
    if not _number(unavailable) and not _number(rolling.get("maxSurge", 0)):
        yield invalid(f"{at}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0")
    yield from above_all_errors(unavailable, f"{at}.maxUnavailable")


def _deadline_errors(spec: Object, path: str) -> Errors:
    deadline, at = spec.get("progressDeadlineSeconds"), f"{path}.progressDeadlineSeconds"
    if deadline is not None:
        yield from not_negative(deadline, at)
        if deadline <= spec.get("minReadySeconds", 0):
            yield invalid(at, deadline, "must be greater than minReadySeconds")


deployment_errors = of_kind(
    metadata(),
    field("replicas", not_negative),
    present("selector", selector_errors, _something("deployment")),
    _template("ReplicaSet"),
    field("strategy", _strategy_errors, absent={}),
    field("minReadySeconds revisionHistoryLimit", not_negative),
    _deadline_errors,
)
replica_set_errors = of_kind(
    metadata(),
    field("replicas minReadySeconds", not_negative),
    present("selector", selector_errors, _something("deployment")),
    _template("ReplicaSet"),
)


def _plain_selector_errors(spec: Object, path: str) -> Errors:
    labels = spec.get("template", {}).get("metadata", {}).get("labels")
    is_unmatched = any((labels or {}).get(key) != value for key, value in spec.get("selector", {}).items())
    if "template" in spec and is_unmatched:
        yield invalid(f"{path}.template.metadata.labels", labels, _UNMATCHED)


replication_controller_errors = of_kind(
    # Unlike the other kinds it does not check generateName, and its messages say bytes, not characters.
    metadata(dns_subdomain_problems, checks_prefix=False),
    field("minReadySeconds", not_negative),
    needed("selector"),
    field("replicas", not_negative),
    present("template"),
    _plain_selector_errors,
    field("template", template_errors, restart_policy("ReplicationController")),
)


def _update_errors(strategy: Object, path: str) -> Errors:
    kind, at = strategy.get("type", ""), f"{path}.rollingUpdate"
    rolling = strategy.get("rollingUpdate")
    if kind in ("OnDelete", _RECREATE):  # whether Recreate is known at all: `recreate_errors`
        if rolling is not None:
            shown = go_struct(rolling, **_PARTITIONED)
            yield invalid(at, shown, "only allowed for updateStrategy 'RollingUpdate'")
    elif kind == "RollingUpdate":
        yield from field("partition", not_negative)(rolling or {}, at)
    else:
        shown = go_struct(strategy, Type="", RollingUpdate=_PARTITIONED)
        yield invalid(path, shown, "must be 'RollingUpdate' or 'OnDelete'")


def recreate_errors(stateful_set: Object) -> Errors:
    """Refuse the update strategy Recreate, as an API server does that does not know it, or has its gate off."""
    strategy = (stateful_set.get("spec") or {}).get("updateStrategy") or {}
    if strategy.get("type") == _RECREATE:
        shown = go_struct(strategy, Type="", RollingUpdate=_PARTITIONED)
        yield invalid("spec.updateStrategy", shown, "must be 'RollingUpdate' or 'OnDelete'")


def _stateful_template_errors(spec: Object, path: str) -> Errors:
    """Check the template with volumes for the claim templates, and without the host names of its pods."""
    names = [claim.get("metadata", {}).get("name", "") for claim in spec.get("volumeClaimTemplates", [])]
    template = spec.get("template", {})
    pod = {key: value for key, value in template.get("spec", {}).items() if key not in ("subdomain", "hostname")}
    if names:
        claims = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in dict.fromkeys(names)]
        pod["volumes"] = [*claims, *(one for one in pod.get("volumes", []) if one.get("name", "") not in names)]
    return _template("", "")({**spec, "template": {**template, "spec": pod}}, path)


stateful_set_errors = of_kind(
    metadata(dns_label),
    field(
        "podManagementPolicy",
        must(lambda policy: policy in ("OrderedReady", "Parallel"), "must be 'OrderedReady' or 'Parallel'"),
        absent="",
    ),
    field("updateStrategy", _update_errors, absent={}),
    field("persistentVolumeClaimRetentionPolicy", field("whenDeleted whenScaled", one_of("Retain", "Delete"))),
    items("volumeClaimTemplates", field("spec", claim_spec_errors, absent={})),
    field("replicas minReadySeconds", not_negative),
    field("ordinals", field("start", not_negative)),
    filled("serviceName", LABEL),
    present("selector", selector_errors, _something("statefulset")),
    _stateful_template_errors,
    field("template", restart_policy("StatefulSet"), absent={}),
)


def _daemon_update_errors(strategy: Object, path: str) -> Errors:
    kind, rolling, at = strategy.get("type", ""), strategy.get("rollingUpdate", {}), f"{path}.rollingUpdate"
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    if kind == "RollingUpdate":
        yield from field("maxUnavailable maxSurge", share_errors)(rolling, at)
        yield from field("maxUnavailable maxSurge", above_all_errors)(rolling, at)
        if _number(unavailable) and _number(surge):
            yield invalid(f"{at}.maxSurge", surge, "may not be set when maxUnavailable is non-zero")
        if not _number(unavailable) and not _number(surge):
            yield required(f"{at}.maxUnavailable", "cannot be 0 when maxSurge is 0")
    elif kind != "OnDelete":
        shown = go_struct(strategy, Type="", RollingUpdate=_SURGING)
        yield not_supported(path, shown, ("RollingUpdate", "OnDelete"))


daemon_set_errors = of_kind(
    metadata(),
    field("selector", selector_errors),
    label_match_errors,
    field("selector", _something("daemonset")),
    field("template", template_errors, restart_policy("DaemonSet"), absent={}),
    field("minReadySeconds", not_negative),
    field("updateStrategy", _daemon_update_errors, absent={}),
    field("revisionHistoryLimit", not_negative),
)
