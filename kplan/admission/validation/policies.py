"""Budgets, classes of priorities, storage and runtimes, quotas, limit ranges, pod groups and autoscalers."""

from __future__ import annotations

from typing import Any

from kplan.admission.validation import checks as check
from kplan.admission.validation import pod_fields
from kplan.admission.validation.checks import Check, Object
from kplan.admission.validation.metadata import label_errors, metadata_check, of_kind, selector_errors, shown_selector
from kplan.admission.validation.pods import above_all_errors, share_errors
from kplan.api.field_errors import Errors, duplicate, forbidden, go_struct, invalid, not_supported, required
from kplan.api.names import label_key_problems
from kplan.api.quantity import MAX_MILLI_VALUE, parse
from kplan.rules.resources import QUOTA_COMPUTE
from kplan.snapshot.defaults import SYSTEM_PRIORITIES, default_amounts

_SYSTEM = "system-"
_HIGHEST = 1_000_000_000  #: the highest priority that users may define


def _both_errors(spec: Object, path: str) -> Errors:
    if "minAvailable" in spec and "maxUnavailable" in spec:
        spec = spec | {"selector": shown_selector(spec["selector"]) if "selector" in spec else None}
        shown = go_struct(spec, MinAvailable=None, Selector=None, MaxUnavailable=None, UnhealthyPodEvictionPolicy=None)
        yield invalid(path, shown, "minAvailable and maxUnavailable cannot be both set")


budget_errors = check.in_turn(
    of_kind(
        check.rules(),
        _both_errors,
        check.field("minAvailable maxUnavailable", share_errors, above_all_errors),
        check.field("selector", selector_errors),
        check.field("unhealthyPodEvictionPolicy", check.one_of("AlwaysAllow", "IfHealthyBudget")),
    ),
    # As of all kinds, once nothing else is wrong (upstream rest.BeforeCreate).
    metadata_check(check.path_segment, has_core_finalizers=False),
)


def _value_errors(obj: Object, _: str) -> Errors:
    name, value = obj.get("metadata", {}).get("name", ""), obj.get("value", 0)
    known, problem = SYSTEM_PRIORITIES.get(name), ""
    if not name.startswith(_SYSTEM):
        if value > _HIGHEST:
            yield forbidden("value", f"maximum allowed value of a user defined priority is {_HIGHEST}")
    elif known is None:
        problem = f"{name} is not a known system priority class"
    elif value != known:
        problem = f"value of {name} PriorityClass must be {known}"
    elif obj.get("globalDefault"):
        problem = f"globalDefault of {name} PriorityClass must be false"
    if problem:
        words = f"priority class names with '{_SYSTEM}' prefix are reserved for system use only. error: {problem}"
        yield forbidden("metadata.name", words)


priority_class_errors = check.rules(
    metadata_check(is_namespaced=False),
    _value_errors,
    check.field("preemptionPolicy", check.stated("PreemptLowerPriority", "Never")),
)

_MOST_PARAMETERS, _MOST_PARAMETER_BYTES = 512, 256 * 1024  # upstream maxProvisionerParameterLen and …Size
_topology_term = check.field(
    "matchLabelExpressions",
    check.distinct(
        lambda is_new: check.rules(
            check.needed("values", check.distinct()), check.field("key", check.KEY, is_new, absent="")
        )
    ),
)


def _allowed_topology_errors(terms: list[Object], path: str) -> Errors:
    # Upstream compares each term with as many empty ones as there are terms, too.
    former: list[dict[str, set[str]]] = [{} for _ in terms]
    for index, term in enumerate(terms):
        yield from _topology_term(term, f"{path}[{index}]")
        wanted = term.get("matchLabelExpressions", ())
        keys = {one.get("key", ""): set(one.get("values", ())) for one in wanted}
        yield from (duplicate(f"{path}[{index}].matchLabelExpressions", "") for other in former if other == keys)
        former.append(keys)


storage_class_errors = check.rules(
    metadata_check(is_namespaced=False),
    check.needed("provisioner", lambda name, path: check.formed(label_key_problems)(name.lower(), path)),
    check.field(
        "parameters",
        check.in_turn(
            check.at_most_bytes(_MOST_PARAMETERS, len),
            check.rules(
                lambda parameters, path: [invalid(path, "", "field can not be empty.")] if "" in parameters else [],
                check.at_most_bytes(_MOST_PARAMETER_BYTES, check.n_bytes_of_pairs),
            ),
        ),
    ),
    check.filled("reclaimPolicy", check.one_of("Delete", "Retain")),
    check.field("volumeBindingMode", check.one_of("Immediate", "WaitForFirstConsumer")),
    check.field("allowedTopologies", _allowed_topology_errors),
)


def _repeated_errors(tolerations: list[Object], path: str) -> Errors:
    names = dict.fromkeys(("Key", "Operator", "Value", "Effect"), "")
    shown = [go_struct(one, **names, TolerationSeconds=None) for one in tolerations]
    keys = [[one[name] for name in names] for one in shown]
    return [duplicate(f"{path}[{n}]", shown[n]) for n, key in enumerate(keys) if key in keys[:n]]


runtime_class_errors = check.rules(
    metadata_check(is_namespaced=False, has_core_finalizers=False),
    check.needed("handler", check.formed(check.dns_label)),
    check.field("overhead", lambda overhead, path: pod_fields.overhead_errors(overhead.get("podFixed", {}), path)),
    check.field(
        "scheduling",
        check.rules(
            check.field("nodeSelector", label_errors),
            check.field("tolerations", pod_fields.toleration_errors, _repeated_errors),
        ),
    ),
)

_CLAIMS = frozenset({"persistentvolumeclaims", "requests.storage"})
_OF_PODS = frozenset(name for name in QUOTA_COMPUTE if not name.endswith("ephemeral-storage"))
_POD_SCOPES = ("Terminating", "NotTerminating", "NotBestEffort", "PriorityClass", "CrossNamespacePodAffinity")
_PLAIN_SCOPES = ("BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity")
_SCOPES = (*_POD_SCOPES, "BestEffort", "VolumeAttributesClass")
_PAIRS = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_TYPES = ("Pod", "Container", "PersistentVolumeClaim")
_REQUEST = "defaultRequest"


def _hard_errors(hard: Object, path: str) -> Errors:
    for name, amount in sorted(hard.items()):
        at = f"{path}[{name}]"
        yield from pod_fields.standard_name_errors(name, at)
        if "/" not in name and not _is_for_quotas(name):
            yield invalid(at, name, "must be a standard resource for quota")
        yield from pod_fields.amount_errors(name, amount, at)


def _is_for_quotas(name: str) -> bool:
    return name in pod_fields.QUOTA_NAMES or name.startswith(("hugepages-", "requests.hugepages-"))


def _unsuited(scope: str, spec: Object, path: str, shown: Any) -> Errors:
    """Return errors for resources that a scope cannot be applied to (IsResourceQuotaScopeValidForResource)."""
    for name in spec.get("hard", {}):
        is_suited = (
            name == "pods" or (scope != "BestEffort" and name in _OF_PODS)
            if scope in (*_POD_SCOPES, "BestEffort")
            else scope != "VolumeAttributesClass" or name in _CLAIMS
        )
        if _is_for_quotas(name) and not is_suited:
            yield invalid(path, shown, "unsupported scope applied to resource")


def _conflicts(scopes: set[str], path: str, shown: Any) -> Errors:
    return [invalid(path, shown, "conflicting scopes") for pair in _PAIRS if pair <= scopes]


def _scope_errors(spec: Object, path: str) -> Errors:
    scopes, path = spec.get("scopes", []), f"{path}.scopes"
    for scope in scopes:
        if scope not in _SCOPES:
            yield invalid(path, scopes, "unsupported scope")
        yield from _unsuited(scope, spec, path, scopes)
    yield from _conflicts(set(scopes), path, scopes)


def _scope_selector_errors(spec: Object, path: str) -> Errors:
    selector, path = spec.get("scopeSelector", {}), f"{path}.scopeSelector.matchExpressions"
    expressions: list[Object] = selector.get("matchExpressions", [])
    shown = {"MatchExpressions": [go_struct(one, ScopeName="", Operator="", Values=None) for one in expressions]}
    for expression in expressions:
        scope, operator = expression.get("scopeName", ""), expression.get("operator", "")
        if scope not in _SCOPES:
            yield invalid(f"{path}.scopeName", scope, "unsupported scope")
        yield from _unsuited(scope, spec, path, shown)
        if scope in _PLAIN_SCOPES and operator != "Exists":
            names = [f"ResourceQuotaScope{name}" for name in ("Terminating", "NotTerminating", *_PLAIN_SCOPES[:2])]
            words = f"{', '.join(names)} or ResourceQuotaScopeCrossNamespacePodAffinity"
            yield invalid(f"{path}.operator", operator, f"must be 'Exists' when scope is any of {words}")
        values = expression.get("values", [])
        if operator not in ("In", "NotIn", "Exists", "DoesNotExist"):
            yield invalid(f"{path}.operator", operator, "not a valid selector operator")
        elif operator in ("In", "NotIn") and not values:
            words = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            yield required(f"{path}.values", words)
        elif operator in ("Exists", "DoesNotExist") and values:
            words = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
            yield invalid(f"{path}.values", values, words)
    yield from _conflicts({expression.get("scopeName", "") for expression in expressions}, path, spec.get("scopes"))


quota_errors = check.rules(
    metadata_check(), check.field("spec", check.field("hard", _hard_errors), _scope_errors, _scope_selector_errors)
)
"""The check of a ResourceQuota."""


def _amount_errors(item: Object, path: str) -> Errors:
    if (kind := item.get("type", "")) == "Container":
        default, request = default_amounts(*(item.get(part, {}) for part in ("max", "min", "default", _REQUEST)))
        item = {**item, "default": default, _REQUEST: request}
    parts = ("max", "min", *(() if kind == "Pod" else ("default", _REQUEST)), "maxLimitRequestRatio")
    name_errors = pod_fields.container_name_errors if kind in ("Pod", "Container") else pod_fields.standard_name_errors
    for part in parts:
        for name in sorted(item.get(part, {})):
            yield from name_errors(name, f"{path}.{part}[{name}]")
    if kind == "PersistentVolumeClaim" and not any("storage" in item.get(part, {}) for part in ("min", "max")):
        words = "either minimum or maximum storage value is required, but neither was provided"
        yield required(f"{path}.limits", words)
    for name in sorted({name for part in parts for name in item.get(part, {})}):
        amounts = {part: item[part][name] for part in parts if name in item.get(part, {})}
        yield from _order_errors(amounts, name, path)
        yield from _ratio_errors(amounts, name, path)


_limit_type = check.in_turn(
    check.KEY,
    check.must(lambda kind: "/" in kind or kind in _TYPES, "must be a standard limit type or fully qualified"),
)
_not_in_pods = check.filled(f"default {_REQUEST}", check.barred("may not be specified when `type` is 'Pod'"))
_limits = check.distinct(
    lambda is_new: check.rules(
        check.field("type", _limit_type, is_new, absent=""),
        check.when(lambda item: item.get("type") == "Pod", _not_in_pods),
        _amount_errors,
    )
)
limit_range_errors = check.rules(metadata_check(), check.field("spec", check.field("limits", _limits)))
"""The check of a LimitRange, its defaults filled in."""

_ORDER = (
    ("min", "max", "min", "min value {} is greater than max value {}", 0),
    ("min", _REQUEST, _REQUEST, "min value {} is greater than default request value {}", 1),
    (_REQUEST, "max", _REQUEST, "default request value {} is greater than max value {}", 0),
    (_REQUEST, "default", _REQUEST, "default request value {} is greater than default limit value {}", 0),
    ("min", "default", "default", "min value {} is greater than default value {}", 0),
    ("default", "max", "default", "default value {} is greater than max value {}", 1),
)
"""The smaller part, the larger one, the field of the error, its words, and which of both amounts it shows."""


def _order_errors(amounts: dict[str, str], name: str, path: str) -> Errors:
    for small, large, part, words, shown in _ORDER:
        if small in amounts and large in amounts and parse(amounts[small]).nanos > parse(amounts[large]).nanos:
            pair = amounts[small], amounts[large]
            yield invalid(f"{path}.{part}[{name}]", pair[shown], words.format(*pair))
    if {"default", _REQUEST} <= amounts.keys() and not pod_fields.can_overcommit(name):
        default, request = amounts["default"], amounts[_REQUEST]
        if parse(default).nanos != parse(request).nanos:
            words = f"default value {default} must equal to defaultRequest value {request} in {name}"
            yield invalid(f"{path}.{_REQUEST}[{name}]", request, words)


def _ratio_errors(amounts: dict[str, str], name: str, path: str) -> Errors:
    ratio, at = amounts.get("maxLimitRequestRatio"), f"{path}.maxLimitRequestRatio[{name}]"
    if ratio is None:
        return
    if parse(ratio).nanos < 10**9:
        yield invalid(at, ratio, f"ratio {ratio} is less than 1")
    if "min" not in amounts or "max" not in amounts or parse(amounts["min"]).nanos == 0:
        return
    exact, low, high = parse(ratio), parse(amounts["min"]), parse(amounts["max"])
    if max(exact.value(), low.value(), high.value()) < MAX_MILLI_VALUE:
        most, stated = high.milli_value() / low.milli_value(), exact.milli_value() / 1000
    else:
        most, stated = high.value() / low.value(), float(exact.value())
    if stated > most:
        yield invalid(at, ratio, f"ratio {ratio} is greater than max/min = {most:f}")


def _one_member(*names: str) -> Check:
    """Return the check that exactly one of some fields is set. Upstream: apimachinery api/validate/union.go."""
    all_names = ", ".join(f"`{name}`" for name in names)

    def errors_of(value: Object, path: str) -> Errors:
        there = [name for name in names if value.get(name) is not None]
        if not there:
            yield invalid(path, "", f"must specify one of: {all_names}")
        elif len(there) > 1:
            yield invalid(path, f"{{{', '.join(there)}}}", f"must specify exactly one of: {all_names}")

    return errors_of


_a_claim = _one_member("resourceClaimName", "resourceClaimTemplateName")
pod_group_errors = of_kind(
    metadata_check(check.dns_subdomain),
    check.field(
        "schedulingPolicy",
        _one_member("basic", "gang"),
        check.field(
            "gang", check.needed("minCount", check.must(lambda n: n >= 1, "must be greater than or equal to 1"))
        ),
        absent={},
    ),
    check.field(
        "schedulingConstraints",
        check.field("topology", check.in_turn(check.at_most_items(1), check.in_list(check.needed("key", check.KEY)))),
    ),
    check.field("resourceClaims", check.in_turn(check.at_most_items(4), check.in_list(_a_claim))),
    check.field("disruptionMode", check.one_of("Pod", "PodGroup")),
)

_SOURCES = {
    f"{name[0].upper()}{name[1:]}": name for name in ("object", "external", "pods", "resource", "containerResource")
}
_MOST_WINDOW, _MOST_PERIOD = 3600, 1800  # seconds; upstream MaxStabilizationWindowSeconds, MaxPeriodSeconds
_type = check.needed("type", words="must specify a metric source type")


def _replica_errors(spec: Object, path: str) -> Errors:
    lowest, highest, at = spec.get("minReplicas", 1), spec.get("maxReplicas", 0), f"{path}.maxReplicas"
    if lowest < 1:
        yield invalid(f"{path}.minReplicas", lowest, "must be greater than or equal to 1")
    if highest == 0:
        yield required(at, "must be set and greater than 0")
    elif highest < 0:
        yield invalid(at, highest, "must be greater than or equal to 1")
    if highest < lowest:
        yield invalid(at, highest, "must be greater than or equal to `minReplicas`")


def _zero_errors(spec: Object, path: str) -> Errors:
    kinds = {metric.get("type") for metric in spec.get("metrics", [])}
    if spec.get("minReplicas") == 0 and not {"Object", "External"} & kinds:
        words = "must specify at least one Object or External metric to support scaling to zero replicas"
        yield forbidden(f"{path}.metrics", words)


def _reference(*, needs_group: bool) -> Check:
    def version_errors(reference: Object, path: str) -> Errors:
        version = reference.get("apiVersion", "")
        if version.count("/") > 1:
            yield invalid(f"{path}.apiVersion", version, f"unexpected GroupVersion string: {version}")
        elif needs_group and "/" not in version and reference.get("kind") != "ReplicationController":
            yield invalid(f"{path}.apiVersion", version, "apiVersion must specify API group")

    return check.rules(check.needed("kind name", check.PATH_SEGMENT), version_errors)


def _metric_errors(metric: Object, path: str) -> Errors:
    kind = metric.get("type", "")
    unknown = [] if kind in _SOURCES else [not_supported(f"{path}.type", kind, sorted(_SOURCES))]
    present = [source for source in _SOURCES.values() if source in metric]
    yield from (*_type(metric, path), *unknown)
    if present:
        yield from _CHECKS[present[0]](metric[present[0]], f"{path}.{present[0]}")
    yield from unknown
    if not unknown and _SOURCES[kind] not in metric:
        yield required(f"{path}.{_SOURCES[kind]}", "must populate information for the given metric source")
    for source in present if len(present) > 1 else ():
        if source != _SOURCES.get(kind):
            yield forbidden(f"{path}.{source}", "must populate the given metric source only")


def _target(one: str, other: str, missing: str, both: str = "") -> Check:
    """Return the check of a target that needs one of two amounts; `both` is said where both may not be."""

    def either_errors(target: Object, path: str) -> Errors:
        if one not in target and other not in target:
            yield required(f"{path}.{other}", missing)
        elif both and one in target and other in target:
            yield forbidden(f"{path}.{one}", both)

    return check.field("target", _target_type, _target_amounts, either_errors, absent={})


_target_type = check.rules(
    check.needed("type", words="must specify a metric target type"),
    check.field(
        "type",
        check.must(
            lambda kind: kind in ("Utilization", "Value", "AverageValue"),
            "must be either Utilization, Value, or AverageValue",
        ),
        absent="",
    ),
)
_target_amounts = check.rules(
    check.field("value averageValue", check.must(lambda amount: parse(amount).nanos > 0, "must be positive")),
    check.field("averageUtilization", check.must(lambda number: number >= 1, "must be greater than 0")),
)
_metric = check.field("metric", check.needed("name", check.PATH_SEGMENT, words="must specify a metric name"), absent={})
_resource = check.needed("name", words="must specify a resource name")
_raw = _target(
    "averageValue",
    "averageUtilization",
    "must set either a target raw value or a target utilization",
    "may not set both a target raw value and a target utilization",
)
_CHECKS = {
    "object": check.rules(
        check.field("describedObject", _reference(needs_group=False), absent={}),
        _metric,
        _target("value", "averageValue", "must set either a target value or averageValue"),
    ),
    "external": check.rules(
        _metric,
        _target(
            "value",
            "averageValue",
            "must set either a target value for metric or a per-pod target",
            "may not set both a target value for metric and a per-pod target",
        ),
    ),
    "pods": check.rules(
        _metric, _target("averageValue", "averageValue", "must specify a positive target averageValue")
    ),
    "resource": check.rules(_resource, _raw),
    "containerResource": check.rules(
        check.needed("name", pod_fields.container_name_errors, words="must specify a resource name"),
        check.needed("container", check.LABEL, words="must specify a container"),
        _raw,
    ),
}

_policy = check.rules(
    check.field("type", check.one_of("Percent", "Pods"), absent=""),
    check.field("value periodSeconds", check.positive, absent=0),
    check.field("periodSeconds", check.at_most(_MOST_PERIOD)),
)
_share = check.must(lambda share: parse(share).nanos >= 0, "must be greater than or equal to 0")
_scaling_rules = check.rules(
    check.field(
        "stabilizationWindowSeconds",
        check.must(lambda seconds: seconds >= 0, "must be greater than or equal to zero"),
        check.at_most(_MOST_WINDOW),
    ),
    check.field("selectPolicy", check.one_of("Disabled", "Max", "Min")),
    check.field(
        "policies",
        lambda policies, path: [] if policies else [required(path, "must specify at least one Policy")],
        check.in_list(_policy),
    ),
    check.since(35, check.field("tolerance", _share)),
)
autoscaler_errors = of_kind(
    metadata_check(),
    _replica_errors,
    check.field("scaleTargetRef", _reference(needs_group=True), absent={}),
    check.items("metrics", _metric_errors),
    _zero_errors,
    check.field("behavior", check.field("scaleUp scaleDown", _scaling_rules)),
)
"""The check of a HorizontalPodAutoscaler."""
