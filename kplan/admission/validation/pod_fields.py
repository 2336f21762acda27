"""What a pod says besides its containers and volumes: where and with what it may run, and its security.

Affinity, tolerations, spread constraints, gates, requests, limits, claims and security contexts, and fields that
Windows or Linux pods must not have. Upstream: pkg/apis/core/validation ValidateAffinity, ValidateSecurityContext,
validateWindows and others.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import partial
from typing import Any

from kplan.admission.validation import checks as check
from kplan.admission.validation.checks import Check, Object
from kplan.admission.validation.metadata import operator_errors, selector_errors
from kplan.api.affinity import EFFECTS, REQUIRED
from kplan.api.core import HUGE_PAGES, is_pod_level_resource, plain_totals
from kplan.api.field_errors import Errors, duplicate, forbidden, go_struct, invalid, not_found, not_supported, required
from kplan.api.quantity import InvalidQuantity, parse
from kplan.rules.resources import COMPUTE, QUOTA_COMPUTE, is_extended, is_native

_MOST_SPEC_KIB = 64  # upstream maxGMSACredentialSpecLengthInKiB
_MOST_DOMAIN, _MOST_USER = 256, 104  # upstream maxRunAsUserNameDomainLength and …UserLength
_NET_BIOS = r'[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}'
_DNS_LABEL = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_DNS_DOMAIN = rf"{_DNS_LABEL}(?:\.{_DNS_LABEL})*"
_FORBIDDEN_CHARACTERS = r'["/\\:;|=,+*?<>@\[\]]'
_PROFILE_TYPES = ("Localhost", "RuntimeDefault", "Unconfined")
_SYSCTL = r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_MOST_SYSCTL = 253  # upstream SysctlMaxLength
_IPC_SYSCTLS = r"kernel\.(sem|shm.*|msg.*)|fs\.mqueue\..*"
_COUNTED = frozenset(
    {"pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps"}
    | {"persistentvolumeclaims", "services.nodeports", "services.loadbalancers"}
)
QUOTA_NAMES = QUOTA_COMPUTE | _COUNTED | {"requests.storage"}  #: what quotas limit, besides resources with a domain
_STANDARD = QUOTA_NAMES | {"storage"}
_POD_FIELDS = (
    *("securityContext.appArmorProfile", "securityContext.seLinuxOptions", "hostUsers", "hostPID", "hostIPC"),
    *("securityContext.seccompProfile", "securityContext.fsGroup", "securityContext.fsGroupChangePolicy"),
    *("securityContext.sysctls", "shareProcessNamespace", "securityContext.runAsUser", "securityContext.runAsGroup"),
    *("securityContext.supplementalGroups", "securityContext.supplementalGroupsPolicy"),
    "securityContext.seLinuxChangePolicy",
)
_CONTAINER_FIELDS = (
    *("appArmorProfile", "seLinuxOptions", "seccompProfile", "capabilities", "readOnlyRootFilesystem", "privileged"),
    *("allowPrivilegeEscalation", "procMount", "runAsUser", "runAsGroup"),
)


def containers_with_path(spec: Object, path: str) -> Iterator[tuple[Object, str]]:
    """Yield every container of a pod in upstream's order, with its path."""
    for group in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(group, [])):
            yield container, f"{path}.{group}[{index}]"


def in_containers(*checks: Check) -> Check:
    """Return checks of every container of a pod's spec."""
    inner = check.rules(*checks)
    return lambda spec, path: [error for one, at in containers_with_path(spec, path) for error in inner(one, at)]


def os_errors(spec: Object, path: str) -> Errors:
    name = spec.get("os", {}).get("name", "")
    containers = [(one.get("securityContext", {}), at) for one, at in containers_with_path(spec, path)]
    if name == "windows":
        stated = [f"{path}.{field}" for field in _POD_FIELDS if next(check.reached(spec, field), None) is not None]
        stated += [f"{at}.securityContext.{key}" for own, at in containers for key in _CONTAINER_FIELDS if key in own]
        yield from (forbidden(at, "cannot be set for a windows pod") for at in stated)
    elif name == "linux":
        for context, at in [(spec.get("securityContext", {}), path), *containers]:
            if "windowsOptions" in context:
                words = "windows options cannot be set for a linux pod"
                yield forbidden(f"{at}.securityContext.windowsOptions", words)
    elif "os" in spec:
        yield not_supported(f"{path}.os", name, ("linux", "windows")) if name else required(f"{path}.os.name")


def _user_problems(text: str) -> Iterator[str]:
    if not text:
        yield "runAsUserName cannot be an empty string"
    elif re.search(r"[\x00-\x1f\x7f]", text):
        yield "runAsUserName cannot contain control characters"
    elif text.count("\\") > 1:
        yield "runAsUserName cannot contain more than one backslash"
    else:
        domain, backslash, user = text.rpartition("\\")
        if len(domain.encode()) >= _MOST_DOMAIN:
            yield f"runAsUserName's Domain length must be under {_MOST_DOMAIN} characters"
        if backslash and not re.fullmatch(_NET_BIOS, domain) and not re.fullmatch(_DNS_DOMAIN, domain):
            yield "runAsUserName's Domain doesn't match the NetBios nor the DNS format"
        if not user:
            yield "runAsUserName's User cannot be empty"
        elif len(user.encode()) > _MOST_USER:
            yield f"runAsUserName's User length must not be longer than {_MOST_USER} characters"
        if re.fullmatch(r"[. ]+", user):
            yield "runAsUserName's User cannot contain only periods or spaces"
        if re.search(_FORBIDDEN_CHARACTERS, user):
            yield "runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]"


_windows = check.field(
    "windowsOptions",
    check.field("gmsaCredentialSpecName", check.SUBDOMAIN),
    check.field(
        "gmsaCredentialSpec",
        check.must(bool, "gmsaCredentialSpec cannot be an empty string"),
        check.must(
            lambda text: len(text.encode()) <= _MOST_SPEC_KIB * 1024,
            f"gmsaCredentialSpec size must be under {_MOST_SPEC_KIB} KiB",
        ),
    ),
    check.field("runAsUserName", check.formed(_user_problems)),
)


def host_process_errors(spec: Object, path: str) -> Errors:
    """Return what is wrong with HostProcess containers, which run as processes of a Windows node."""
    whole = spec.get("securityContext", {}).get("windowsOptions", {}).get("hostProcess")
    containers = list(containers_with_path(spec, path))
    on_host = 0
    for container, at in containers:
        own = container.get("securityContext", {}).get("windowsOptions", {}).get("hostProcess")
        if whole is not None and own is not None and whole != own:
            words = f"pod hostProcess value must be identical if both are specified, was {str(whole).lower()}"
            yield invalid(f"{at}.securityContext.windowsOptions.hostProcess", own, words)
        on_host += bool(whole if own is None else own)
    if on_host and on_host != len(containers):
        words = "If pod contains any hostProcess containers then all containers must be HostProcess containers"
        yield invalid(path, "", words)
    if on_host and not spec.get("hostNetwork"):
        words = "hostNetwork must be true if pod contains any hostProcess containers"
        yield invalid(f"{path}.hostNetwork", value=False, detail=words)


def _seccomp_errors(profile: Object, path: str) -> Errors:
    kind, file = profile.get("type", ""), profile.get("localhostProfile")
    words = "type is required when seccompProfile is set"
    yield from check.needed("type", check.one_of(*_PROFILE_TYPES), words=words)(profile, path)
    if kind == "Localhost":
        if file is None:
            yield required(f"{path}.localhostProfile", "must be set when seccomp type is Localhost")
        else:
            yield from check.descending(file, f"{path}.localhostProfile")
    elif file is not None:
        shown = go_struct(profile, **_PROFILE)
        yield invalid(f"{path}.localhostProfile", shown, "can only be set when seccomp type is Localhost")


def app_armor_errors(profile: Object, path: str) -> Errors:
    kind, name = profile.get("type", ""), profile.get("localhostProfile")
    at = f"{path}.localhostProfile"
    if not kind:
        yield required(f"{path}.type", "type is required when appArmorProfile is set")
    elif kind not in _PROFILE_TYPES:
        yield not_supported(f"{path}.type", kind, _PROFILE_TYPES)
    elif kind != "Localhost":
        if name is not None:
            yield invalid(at, name, "can only be set when AppArmor type is Localhost")
    elif not name:
        yield required(at, "must be set when AppArmor type is Localhost")
    else:
        if name.strip() != name:
            yield invalid(at, name, "must not be padded with whitespace")
        yield from check.at_most_bytes(4095)(name, at)


def _escalation_errors(context: Object, path: str) -> Errors:
    others = ["`privileged` to true"] if context.get("privileged") else []
    added = context.get("capabilities", {}).get("add", [])
    others += ["`capabilities.Add` CAP_SYS_ADMIN" for name in added if name == "CAP_SYS_ADMIN"]
    for other in others if context.get("allowPrivilegeEscalation") is False else ():
        words = f"cannot set `allowPrivilegeEscalation` to false and {other}"
        yield invalid(path, go_struct(context, **_CONTEXT), words)


_PROFILE = {"Type": "", "LocalhostProfile": None}
_CONTEXT: dict[str, Any] = {
    "Capabilities": {"Add": None, "Drop": None},
    "Privileged": None,
    "SELinuxOptions": dict.fromkeys(("User", "Role", "Type", "Level"), ""),
    "WindowsOptions": dict.fromkeys(("GMSACredentialSpecName", "GMSACredentialSpec", "RunAsUserName", "HostProcess")),
    **dict.fromkeys(("RunAsUser", "RunAsGroup", "RunAsNonRoot", "ReadOnlyRootFilesystem")),
    **dict.fromkeys(("AllowPrivilegeEscalation", "ProcMount")),
    "SeccompProfile": _PROFILE,
    "AppArmorProfile": _PROFILE,
}
"""The fields of a container's security context as messages show them, with inner fields and their zero values."""

_id = check.between(0, check.MOST_ID)
_seccomp, _app_armor = check.field("seccompProfile", _seccomp_errors), check.field("appArmorProfile", app_armor_errors)
_container = check.rules(
    check.field("runAsUser runAsGroup", _id), check.field("procMount", check.one_of("Default", "Unmasked"))
)
_container_rest = check.rules(_seccomp, _escalation_errors, _windows, _app_armor)


def security_errors(context: Object, path: str, *, host_users: bool) -> Errors:
    yield from _container(context, path)
    if host_users and context.get("procMount") == "Unmasked":
        yield invalid(f"{path}.procMount", "Unmasked", "`hostUsers` must be false to use `Unmasked`")
    yield from _container_rest(context, path)


_ids = check.rules(check.field("fsGroup runAsUser runAsGroup", _id), check.items("supplementalGroups", _id))
_policies = check.rules(
    check.field("fsGroupChangePolicy", check.one_of("Always", "OnRootMismatch")),
    _seccomp,
    _windows,
    _app_armor,
    check.field("supplementalGroupsPolicy", check.one_of("Merge", "Strict")),
    check.field("seLinuxChangePolicy", check.one_of("Recursive")),
)


def pod_security_errors(spec: Object, path: str) -> Errors:
    """Return what is wrong with the security context of a pod; `path` is that of the spec."""
    context, at = spec.get("securityContext", {}), f"{path}.securityContext"
    yield from _ids(context, at)
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        words = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield invalid(f"{at}.shareProcessNamespace", value=True, detail=words)
    names: set[str] = set()
    for index, setting in enumerate(context.get("sysctls", [])):
        where, name = f"{at}.sysctls[{index}].name", setting.get("name", "")
        if not name:
            yield required(where)
        elif len(name) > _MOST_SYSCTL or not re.fullmatch(_SYSCTL, name):
            yield invalid(where, name, f"must have at most {_MOST_SYSCTL} characters and match regex ^{_SYSCTL}$")
        elif name in names:
            yield duplicate(where, name)
        plain = name.replace("/", ".")
        if spec.get("hostNetwork") and plain.startswith("net."):
            yield invalid(where, name, "may not be specified when 'hostNetwork' is true")
        elif spec.get("hostIPC") and re.fullmatch(_IPC_SYSCTLS, plain):
            yield invalid(where, name, "may not be specified when 'hostIPC' is true")
        names.add(name)
    yield from _policies(context, at)


def _node_field_errors(selector: Object, path: str) -> Errors:
    values, operator, key = selector.get("values", []), selector.get("operator", ""), selector.get("key", "")
    if operator not in ("In", "NotIn"):
        yield invalid(f"{path}.operator", operator, "not a valid selector operator")
    elif len(values) != 1:
        words = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        yield required(f"{path}.values", words)
    if key != "metadata.name":
        yield invalid(f"{path}.key", key, "not a valid field selector key")
    else:
        yield from check.in_list(check.SUBDOMAIN)(values, f"{path}.values")


_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_weight = check.field("weight", check.must(lambda weight: 1 <= weight <= 100, "must be in the range 1-100"), absent=0)
_topology_key = check.needed("topologyKey", words="can not be empty")
_expression = check.rules(partial(operator_errors, numeric=True), check.field("key", check.KEY, absent=""))
_node_fields = check.items("matchFields", _node_field_errors)
_preference = check.rules(check.items("matchExpressions", _expression), _node_fields)
_node_term = check.rules(
    check.items("matchExpressions", _expression, check.items("values", check.LABEL_VALUE)), _node_fields
)
node_selector_errors = check.needed(
    "nodeSelectorTerms", check.in_list(_node_term), words="must have at least one node selector term"
)


def _label_key_list_errors(term: Object, path: str, names: tuple[str, ...] = ("matchLabelKeys",)) -> Errors:
    """Check matchLabelKeys and mismatchLabelKeys (upstream ValidateMatchLabelKeysAndMismatchLabelKeys)."""
    selector = term.get("labelSelector")
    for name in names:
        if term.get(name) and selector is None:
            yield forbidden(f"{path}.{name}", "must not be specified when labelSelector is not set")
        else:
            yield from check.items(name, check.KEY)(term, path)
    positions = {key: index for index, key in enumerate(term.get("matchLabelKeys", []))}
    selected = set((selector or {}).get("matchLabels", {}))
    for expression in (selector or {}).get("matchExpressions", []):
        key = expression.get("key", "")
        if key in positions and key in selected:
            yield invalid(f"{path}[{positions[key]}]", key, "exists in both matchLabelKeys and labelSelector")
        selected.add(key)
    if len(names) > 1:
        mismatched = check.must(
            lambda key: key not in term.get(names[1], []), "exists in both matchLabelKeys and mismatchLabelKeys"
        )
        yield from check.items(names[0], mismatched)(term, path)


_pod_term = check.rules(
    check.field("labelSelector namespaceSelector", selector_errors),
    check.field("namespaces", check.every_item(check.LABEL), called="namespace"),
    partial(_label_key_list_errors, names=("matchLabelKeys", "mismatchLabelKeys")),
    _topology_key,
    check.field("topologyKey", check.KEY, absent=""),
)
affinity_errors = check.rules(
    check.field(
        "nodeAffinity",
        check.field(REQUIRED, node_selector_errors),
        check.items(_PREFERRED, _weight, check.field("preference", _preference, absent={})),
    ),
    check.field(
        "podAffinity podAntiAffinity",
        check.items(REQUIRED, _pod_term),
        check.items(_PREFERRED, _weight, check.field("podAffinityTerm", _pod_term, absent={})),
    ),
)


def _toleration_errors(toleration: Object, path: str) -> Errors:
    operator, effect, value = (toleration.get(key, "") for key in ("operator", "effect", "value"))
    at = f"{path}.operator"
    if toleration.get("key", ""):
        yield from check.KEY(toleration["key"], f"{path}.key")
    elif operator != "Exists":
        words = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        yield invalid(at, operator, words)
    if "tolerationSeconds" in toleration and effect != "NoExecute":
        yield invalid(f"{path}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
    if operator in ("Equal", ""):
        if problems := [error.detail for error in check.LABEL_VALUE(value, at)]:
            yield invalid(at, value, ";".join(problems))
    elif operator == "Exists":
        if value:
            yield invalid(at, value, "value must be empty when `operator` is 'Exists'")
    else:
        ordered = ("Lt", "Gt") if operator in ("Lt", "Gt") else ()
        yield not_supported(at, operator, ("Equal", "Exists", *ordered))


toleration_errors = check.in_list(_toleration_errors, check.filled("effect", check.one_of(*EFFECTS)))


def _min_domain_errors(constraint: Object, path: str) -> Errors:
    action = constraint.get("whenUnsatisfiable", "")
    if "minDomains" in constraint and action != "DoNotSchedule":
        words = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        yield invalid(f"{path}.minDomains", constraint["minDomains"], words)


_SPREAD = (
    check.rules(
        check.field("maxSkew", check.positive, absent=0),
        _topology_key,
        check.field("whenUnsatisfiable", check.one_of("DoNotSchedule", "ScheduleAnyway"), absent=""),
    ),
    check.rules(
        check.field("minDomains", check.positive),
        _min_domain_errors,
        check.field("nodeAffinityPolicy nodeTaintsPolicy", check.one_of("Honor", "Ignore")),
        _label_key_list_errors,
        check.field("labelSelector", selector_errors),
    ),
)
"""What is checked before and after the uniqueness of a constraint."""


def spread_errors(constraints: list[Object], path: str) -> Errors:
    pairs = [(item.get("topologyKey", ""), item.get("whenUnsatisfiable", "")) for item in constraints]
    for index, constraint in enumerate(constraints):
        at = f"{path}[{index}]"
        yield from _SPREAD[0](constraint, at)
        if pairs[index] in pairs[index + 1 :]:
            yield duplicate(f"{at}.{{topologyKey, whenUnsatisfiable}}", f"{{{', '.join(pairs[index])}}}")
        yield from _SPREAD[1](constraint, at)


def gate_errors(gates: list[Object], path: str) -> Errors:
    is_new = check.unique()
    for index, gate in enumerate(gates):
        name, at = gate.get("name", ""), f"{path}[{index}]"
        yield from (*check.KEY(name, at), *is_new(name, at))


def resource_errors(resources: Object, path: str, name_errors: Check, claims: Collection[str] = ()) -> Errors:
    """Return what is wrong with requests, limits and claims; `claims` are the names of the pod's resource claims."""
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    for side, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in sorted(amounts.items()):
            at = f"{path}.{side}[{name}]"
            yield from name_errors(name, at)
            yield from amount_errors(name, amount, at)
            if side == "requests":
                yield from _limit_errors(name, amount, limits.get(name), path)
            if name.startswith(HUGE_PAGES) and not _is_multiple(amount, name):
                yield invalid(at, amount, f"{amount} is not positive integer multiple of {name}")
    named = limits.keys() | requests.keys()
    if not named & {"cpu", "memory"} and any(name.startswith(HUGE_PAGES) for name in named):
        yield forbidden(path, "HugePages require cpu or memory")
    yield from _claim_errors(resources.get("claims", []), claims, f"{path}.claims")


def overhead_errors(amounts: Object, path: str) -> Errors:
    return resource_errors({"limits": amounts}, path, container_name_errors)


def pod_resource_errors(spec: Object, claims: Collection[str], path: str) -> Errors:
    """Return what is wrong with pod-level resources, also compared with the containers'."""
    resources, at = spec.get("resources"), f"{path}.resources"
    if resources is None:
        return
    if spec.get("os", {}).get("name") == "windows":
        yield forbidden(at, "may not be set for a windows pod")
        return
    if "claims" in resources:
        yield forbidden(f"{at}.claims", "claims may not be set for Resources at pod-level")
    yield from resource_errors(resources, at, _pod_name_errors, claims)
    requests, limits = resources.get("requests", {}), resources.get("limits", {})
    pages = {name: total for name, total in plain_totals(spec, "limits").items() if name.startswith(HUGE_PAGES)}
    for side, amounts, totals in (("requests", requests, plain_totals(spec, "requests")), ("limits", limits, pages)):
        for name, total in sorted(totals.items()):
            if name in amounts and total.nanos > parse(amounts[name]).nanos:
                words = f"must be greater than or equal to aggregate container {side} of {total}"
                yield invalid(f"{at}.{side}[{name}]", amounts[name], words)
    for index, container in enumerate(spec.get("containers", [])):
        for name, amount in sorted(container.get("resources", {}).get("limits", {}).items()):
            if name in limits and parse(amount).nanos > parse(limits[name]).nanos:
                words = f"must be less than or equal to pod limits of {limits[name]}"
                yield invalid(f"{at}.containers[{index}][{name}].limits", amount, words)


def _limit_errors(name: str, amount: str, limit: str | None, path: str) -> Errors:
    if limit is None:
        if not can_overcommit(name):
            yield required(f"{path}.limits", "Limit must be set for non overcommitable resources")
        return
    request, most = parse(amount).nanos, parse(limit).nanos
    if request != most and not can_overcommit(name):
        yield invalid(f"{path}.requests", amount, f"must be equal to {name} limit of {limit}")
    elif request > most:
        yield invalid(f"{path}.requests", amount, f"must be less than or equal to {name} limit of {limit}")


def amount_errors(name: str, amount: str, path: str) -> Errors:
    """Return what is wrong with an amount of a resource (upstream ValidateResourceQuantityValue)."""
    exact = parse(amount)
    if exact.nanos < 0:
        yield invalid(path, amount, "must be greater than or equal to 0")
    if (name in _COUNTED or is_extended(name)) and exact.milli_value() % 1000:
        yield invalid(path, amount, "must be an integer")


def _is_multiple(amount: str, name: str) -> bool:
    try:
        size = parse(name.removeprefix(HUGE_PAGES))
    except InvalidQuantity:
        return False
    return size.nanos > 0 and size.milli_value() % 1000 == 0 and parse(amount).value() % size.value() == 0


standard_name_errors = check.in_turn(
    check.KEY,
    check.must(
        lambda name: "/" in name or name in _STANDARD or name.startswith((HUGE_PAGES, f"requests.{HUGE_PAGES}")),
        "must be a standard resource type or fully qualified",
    ),
)
"""The check of the name of a resource (upstream validateResourceName)."""


def container_name_errors(name: str, path: str) -> Errors:
    yield from standard_name_errors(name, path)
    if "/" not in name:
        if name not in COMPUTE and not name.startswith(HUGE_PAGES):
            yield invalid(path, name, "must be a standard resource for containers")
    elif not is_native(name) and not is_extended(name):
        yield invalid(path, name, "doesn't follow extended resource name standard")


def _pod_name_errors(name: str, path: str) -> Errors:
    others = () if is_pod_level_resource(name) else [not_supported(path, name, ("cpu", HUGE_PAGES, "memory"))]
    return list(standard_name_errors(name, path)) or others


def can_overcommit(name: str) -> bool:
    """Tell whether limits of a resource may be larger than its requests."""
    return is_native(name) and not name.startswith(HUGE_PAGES)


def _claim_errors(entries: list[dict[str, str]], declared: Collection[str], path: str) -> Errors:
    used: set[str] = set()
    for index, entry in enumerate(entries):
        at, name, request = f"{path}[{index}]", entry.get("name", ""), entry.get("request", "")
        if not name:
            yield required(at)
            continue
        if name in used:
            yield duplicate(at, name)
        elif request:
            yield from check.LABEL(request, f"{at}.request")
            if (key := f"{name}/{request}") in used:
                yield duplicate(at, key)
            used.add(key)
        else:
            yield from (duplicate(at, name) for other in used if other.startswith(f"{name}/"))
            used.add(name)
        if name not in declared:
            known = f": {', '.join(sorted(declared))}" if declared else " which is empty"
            yield not_found(at, name, f"must be one of the names in pod.spec.resourceClaims{known}")
