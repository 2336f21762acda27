"""Jobs (pkg/apis/batch/validation ValidateJob)."""

from __future__ import annotations

from typing import Any

from kplan.admission.validation.errors import (
    OMITTED,
    Errors,
    count_errors,
    duplicate,
    enum_errors,
    invalid,
    not_negative,
    not_supported,
    quoted,
    required,
    size_errors,
)
from kplan.admission.validation.metadata import metadata_errors, selector_errors, selector_matches, shown_selector
from kplan.admission.validation.pods import template_errors
from kplan.admission.validation.success import success_policy_errors
from kplan.admission.validation.texts import dns_label, dns_subdomain, domain_prefixed_path, label_key_errors

Object = dict[str, Any]
JOB_NAME, CONTROLLER_UID = "batch.kubernetes.io/job-name", "batch.kubernetes.io/controller-uid"
LEGACY_JOB_NAME, LEGACY_CONTROLLER_UID = "job-name", "controller-uid"
_MOST_PARALLEL = _MOST_FAILED = _MANY_COMPLETIONS = 100_000
_MOST_WITH_MANY = 10_000
_MOST_RULES, _MOST_EXIT_CODES, _MOST_PATTERNS, _MOST_MANAGER = 20, 255, 20, 63
_NUMBERS = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)
_RANDOM_SUFFIX = "xxxxx"
"""As long as the suffix that the API server adds to a generateName."""

_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_STATUSES = ("False", "True", "Unknown")


def job_errors(obj: Object) -> Errors:
    """Return what is wrong with a job that has its generated selector and uid."""
    metadata, spec = obj.get("metadata", {}), obj.get("spec", {})
    errors = metadata_errors(metadata, dns_subdomain) + _generated_errors(metadata, spec)
    errors += job_spec_errors(spec, "spec")
    selector = spec.get("selector")
    errors += [required("spec.selector")] if selector is None else selector_errors(selector, "spec.selector")
    labels = spec.get("template", {}).get("metadata", {}).get("labels", {})
    if selector_matches(selector, labels) is False:
        detail = "`selector` does not match template `labels`"
        errors.append(invalid("spec.template.metadata.labels", labels, detail))
    if spec.get("completionMode") == "Indexed" and spec.get("completions", 0) > 0:
        generated = f"{metadata.get('generateName', '')}{_RANDOM_SUFFIX}"
        host = f"{metadata.get('name') or generated}-{spec['completions'] - 1}"
        if dns_label(host):
            detail = f"will not able to create pod with invalid DNS label: {host}"
            errors.append(invalid("metadata.name", metadata.get("name", ""), detail))
    return errors


def _generated_errors(metadata: Object, spec: Object) -> Errors:
    """Compare labels and selector with those that the API server generates (upstream validateGeneratedSelector)."""
    selector = spec.get("selector")
    if spec.get("manualSelector") or selector is None:
        return []
    uid, name = metadata.get("uid", ""), metadata.get("name", "")
    wanted = {LEGACY_CONTROLLER_UID: uid, LEGACY_JOB_NAME: name, CONTROLLER_UID: uid, JOB_NAME: name}
    labels = spec.get("template", {}).get("metadata", {}).get("labels", {})
    errors: Errors = []
    for key, value in wanted.items():
        at = f"spec.template.metadata.labels[{key}]"
        if key not in labels:
            errors.append(required(at, f"must be '{value}'"))
        elif labels[key] != value:
            errors.append(invalid(at, labels, f"must be '{value}'"))
    if selector_matches(selector, wanted) is False:
        errors.append(invalid("spec.selector", shown_selector(selector), "`selector` not auto-generated"))
    return errors


def job_spec_errors(spec: Object, path: str) -> Errors:
    """Return what is wrong with the spec of a job, except its selector."""
    errors = not_negative(spec, path, *_NUMBERS)
    if "maxFailedIndexes" in spec and "backoffLimitPerIndex" not in spec:
        errors.append(required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified"))
    if "managedBy" in spec:
        errors += domain_prefixed_path(spec["managedBy"], f"{path}.managedBy")
        errors += size_errors(len(spec["managedBy"].encode()), _MOST_MANAGER, f"{path}.managedBy")
    errors += _mode_errors(spec, path)
    if "podFailurePolicy" in spec:
        errors += _failure_policy_errors(spec, f"{path}.podFailurePolicy")
    if "successPolicy" in spec:
        errors += success_policy_errors(spec, f"{path}.successPolicy")
    replacements = ("Failed",) if "podFailurePolicy" in spec else ("Failed", "TerminatingOrFailed")
    errors += enum_errors(spec.get("podReplacementPolicy"), replacements, f"{path}.podReplacementPolicy")
    template = spec.get("template", {})
    errors += template_errors(template, f"{path}.template")
    return errors + _restart_errors(template.get("spec", {}), spec, f"{path}.template.spec.restartPolicy")


def _restart_errors(pod: Object, spec: Object, path: str) -> Errors:
    policy = pod.get("restartPolicy", "")
    if policy in ("", "Always"):
        return [required(path, 'valid values: "OnFailure", "Never"')]
    if policy not in ("OnFailure", "Never"):
        return [not_supported(path, policy, ("OnFailure", "Never"))]
    if "podFailurePolicy" in spec and policy != "Never":
        return [invalid(path, policy, 'only "Never" is supported when podFailurePolicy is specified')]
    return []


def _mode_errors(spec: Object, path: str) -> Errors:
    mode = spec.get("completionMode")
    errors = enum_errors(mode, ("NonIndexed", "Indexed"), f"{path}.completionMode")
    if mode == "Indexed":
        errors += _indexed_errors(spec, path)
    elif mode in (None, "NonIndexed"):
        errors += [
            invalid(f"{path}.{key}", spec[key], "requires indexed completion mode")
            for key in ("backoffLimitPerIndex", "maxFailedIndexes")
            if key in spec
        ]
    return errors


def _indexed_errors(spec: Object, path: str) -> Errors:
    completions, failed, parallel = (spec.get(key) for key in ("completions", "maxFailedIndexes", "parallelism"))
    errors: Errors = []
    if completions is None:
        errors.append(required(f"{path}.completions", "when completion mode is Indexed"))
    if parallel is not None and parallel > _MOST_PARALLEL:
        detail = f"must be less than or equal to {_MOST_PARALLEL} when completion mode is Indexed"
        errors.append(invalid(f"{path}.parallelism", parallel, detail))
    if completions is not None and failed is not None and failed > completions:
        errors.append(invalid(f"{path}.maxFailedIndexes", failed, "must be less than or equal to completions"))
    if failed is not None and failed > _MOST_FAILED:
        errors.append(invalid(f"{path}.maxFailedIndexes", failed, f"must be less than or equal to {_MOST_FAILED}"))
    if completions is not None and completions > _MANY_COMPLETIONS and "backoffLimitPerIndex" in spec:
        detail = (
            f"must be less than or equal to {_MOST_WITH_MANY} when completions are above {_MANY_COMPLETIONS} and used"
            " with backoff limit per index"
        )
        if failed is None:
            what = f"must be specified when completions is above {_MANY_COMPLETIONS}"
            errors.append(required(f"{path}.maxFailedIndexes", what))
        if parallel is not None and parallel > _MOST_WITH_MANY:
            errors.append(invalid(f"{path}.parallelism", parallel, detail))
        if failed is not None and failed > _MOST_WITH_MANY:
            errors.append(invalid(f"{path}.maxFailedIndexes", failed, detail))
    return errors


def _failure_policy_errors(spec: Object, path: str) -> Errors:
    rules = spec["podFailurePolicy"].get("rules", [])
    errors = count_errors(rules, _MOST_RULES, f"{path}.rules")
    pod = spec.get("template", {}).get("spec", {})
    names = {
        container.get("name", "") for group in ("containers", "initContainers") for container in pod.get(group, [])
    }
    for index, rule in enumerate(rules):
        errors += _failure_rule_errors(rule, spec, names, f"{path}.rules[{index}]")
    return errors


def _failure_rule_errors(rule: Object, spec: Object, names: set[str], path: str) -> Errors:
    errors = _named_errors(rule.get("action", ""), _ACTIONS, f"{path}.action")
    if rule.get("action") == "FailIndex" and "backoffLimitPerIndex" not in spec:
        detail = "requires the backoffLimitPerIndex to be set"
        errors.append(invalid(f"{path}.action", "FailIndex", detail))
    codes, patterns = rule.get("onExitCodes"), rule.get("onPodConditions", [])
    if codes is not None:
        errors += _exit_code_errors(codes, names, f"{path}.onExitCodes")
    errors += count_errors(patterns, _MOST_PATTERNS, f"{path}.onPodConditions")
    for index, pattern in enumerate(patterns):
        at = f"{path}.onPodConditions[{index}]"
        errors += label_key_errors(pattern.get("type", ""), f"{at}.type")
        errors += _named_errors(pattern.get("status", ""), _STATUSES, f"{at}.status")
    if codes is not None and patterns:
        errors.append(invalid(path, OMITTED, "specifying both OnExitCodes and OnPodConditions is not supported"))
    if codes is None and not patterns:
        errors.append(invalid(path, OMITTED, "specifying one of OnExitCodes and OnPodConditions is required"))
    return errors


def _named_errors(value: str, allowed: tuple[str, ...], path: str) -> Errors:
    if not value:
        return [required(path, f"valid values: [{' '.join(map(quoted, allowed))}]")]
    return [] if value in allowed else [not_supported(path, value, allowed)]


def _exit_code_errors(rule: Object, names: set[str], path: str) -> Errors:
    operator, values = rule.get("operator", ""), rule.get("values", [])
    errors = _named_errors(operator, ("In", "NotIn"), f"{path}.operator")
    if "containerName" in rule and rule["containerName"] not in names:
        detail = "must be one of the container or initContainer names in the pod template"
        errors.append(invalid(f"{path}.containerName", rule["containerName"], detail))
    if not values:
        errors.append(invalid(f"{path}.values", values, "at least one value is required"))
    errors += count_errors(values, _MOST_EXIT_CODES, f"{path}.values")
    visited: set[int] = set()
    for index, value in enumerate(values):
        at = f"{path}.values[{index}]"
        if operator == "In" and value == 0:
            errors.append(invalid(at, value, "must not be 0 for the In operator"))
        if value in visited:
            errors.append(duplicate(at, value))
        visited.add(value)
    if values != sorted(values):
        errors.append(invalid(f"{path}.values", values, "must be ordered"))
    return errors
