"""Jobs and cron jobs (pkg/apis/batch/validation ValidateJob, validateSuccessPolicy, ValidateCronJobCreate)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from msgspec.structs import replace

from kplan.admission.schedules import Unreadable, read_schedule
from kplan.admission.validation import checks as check
from kplan.admission.validation.checks import Check, Object
from kplan.admission.validation.metadata import metadata_check, selector_errors, selector_matches, shown_selector
from kplan.admission.validation.pods import label_match_errors, template_errors
from kplan.api.field_errors import OMITTED, Errors, go_struct, invalid, not_supported, quoted, required
from kplan.api.labels import CONTROLLER_UID, JOB_NAME, LEGACY_CONTROLLER_UID, LEGACY_JOB_NAME, job_labels
from kplan.api.names import generated_uid
from kplan.api.time import is_time_zone

_MOST_RULES = 20  # upstream maxPodFailurePolicyRules
_MOST_TEXT = 64 * 1024  # upstream maxJobSuccessPolicySucceededIndexesLimit


def _success_policy_errors(spec: Object, path: str) -> Errors:
    rules, path = spec["successPolicy"].get("rules", []), f"{path}.successPolicy"
    if spec.get("completionMode") != "Indexed":
        shown = {"Rules": [go_struct(rule, SucceededIndexes=None, SucceededCount=None) for rule in rules]}
        yield invalid(path, shown, "requires indexed completion mode")
        return
    if not rules:
        yield required(f"{path}.rules", "at least one rules must be specified when the successPolicy is specified")
    yield from check.at_most_items(_MOST_RULES)(rules, f"{path}.rules")
    for index, rule in enumerate(rules):
        yield from _rule_errors(rule, spec.get("completions", 0), f"{path}.rules[{index}]")


def _rule_errors(rule: Object, completions: int, path: str) -> Errors:
    count, indexes = rule.get("succeededCount"), rule.get("succeededIndexes")
    total = 0
    if count is None and indexes is None:
        yield required(path, "at least one of succeededCount or succeededIndexes must be specified")
    if indexes is not None:
        at = f"{path}.succeededIndexes"
        yield from check.at_most_bytes(_MOST_TEXT)(indexes, at)
        try:
            total = _count(indexes, completions)
        except Unreadable as error:
            yield invalid(at, indexes, f"error parsing succeededIndexes: {error}")
    if count is not None:
        at, bound = f"{path}.succeededCount", "must be less than or equal to"
        yield from check.not_negative(count, at)
        if count > completions:
            yield invalid(at, count, f"{bound} {completions} (the number of specified completions)")
        if indexes is not None and count > total:
            what = "the number of indexes in the specified succeededIndexes field"
            yield invalid(at, count, f"{bound} {total} ({what})")


def _count(text: str, completions: int) -> int:
    """Count the indexes of ``1,3-5``, which must be in ascending order."""
    if not text:
        return 0
    last: int | None = None
    total = 0
    for part in text[:_MOST_TEXT].split(","):
        bounds = part.split("-")
        if len(bounds) > 2:
            words = "violates the requirement that an index interval can have at most two parts separated by '-'"
            raise Unreadable(f'the fragment "{part}" {words}')
        numbers = []
        for bound in bounds:
            if not re.fullmatch(r"[+-]?[0-9]{1,19}", bound):
                raise Unreadable(f'cannot convert string to integer for index: "{bound}"')
            if int(bound) >= completions:
                raise Unreadable(f'too large index: "{bound}"')
            numbers.append(int(bound))
        if last is not None and last >= numbers[0]:
            raise Unreadable(f"non-increasing order, previous: {last}, current: {numbers[0]}")
        if len(numbers) == 2 and numbers[0] >= numbers[1]:
            raise Unreadable(f"non-increasing order, previous: {numbers[0]}, current: {numbers[1]}")
        total += numbers[-1] - numbers[0] + 1
        last = numbers[-1]
    return total


_MOST_PARALLEL = _MOST_FAILED = _MANY_COMPLETIONS = 100_000  # upstream maxParallelismForIndexedJob and others
_MOST_WITH_MANY = 10_000  # upstream parallelismLimitForHighCompletions and maxFailedIndexesLimitForHighCompletions
_WITH_MANY = f"when completions are above {_MANY_COMPLETIONS} and used with backoff limit per index"
_MOST_PREFIX = 58  # upstream MaxGeneratedNameLength


def _full_name(meta: Object) -> str:
    """Return a name, or one as long as that which the API server makes of a generateName."""
    prefix = meta.get("generateName", "")[:_MOST_PREFIX]
    return str(meta.get("name") or (prefix and f"{prefix}xxxxx"))


def _generated_errors(obj: Object, _: str) -> Errors:
    """Compare labels and selector with those that the API server generates (upstream validateGeneratedSelector)."""
    meta, spec = obj.get("metadata", {}), obj.get("spec", {})
    selector, labels = spec.get("selector"), spec.get("template", {}).get("metadata", {}).get("labels", {})
    if spec.get("manualSelector") or selector is None:
        return
    uid, name = meta.get("uid", ""), meta.get("name", "")
    wanted = job_labels(name, uid)
    for key in (LEGACY_CONTROLLER_UID, LEGACY_JOB_NAME, CONTROLLER_UID, JOB_NAME):
        value = wanted[key]
        at, words = f"spec.template.metadata.labels[{key}]", f"must be '{value}'"
        if labels.get(key) != value:
            yield invalid(at, labels, words) if key in labels else required(at, words)
    if selector_matches(selector, wanted) is False:
        yield invalid("spec.selector", shown_selector(selector), "`selector` not auto-generated")


def _pod_name_errors(obj: Object, _: str) -> Errors:
    meta, spec = obj.get("metadata", {}), obj.get("spec", {})
    if spec.get("completionMode") == "Indexed" and spec.get("completions", 0) > 0:
        host = f"{_full_name(meta)}-{spec['completions'] - 1}"
        if check.dns_label(host):
            words = f"will not able to create pod with invalid DNS label: {host}"
            yield invalid("metadata.name", meta.get("name", ""), words)


_mode = check.rules(
    check.when(
        lambda spec: spec.get("completionMode") == "Indexed",
        check.present("completions", words="when completion mode is Indexed"),
        check.field("parallelism", check.at_most(_MOST_PARALLEL, "when completion mode is Indexed")),
        check.when(
            lambda spec: spec.get("maxFailedIndexes", 0) > spec.get("completions", math.inf),
            check.field("maxFailedIndexes", check.never("must be less than or equal to completions")),
        ),
        check.field("maxFailedIndexes", check.at_most(_MOST_FAILED)),
        check.when(
            lambda spec: spec.get("completions", 0) > _MANY_COMPLETIONS and "backoffLimitPerIndex" in spec,
            check.present("maxFailedIndexes", words=f"must be specified when completions is above {_MANY_COMPLETIONS}"),
            check.field("parallelism maxFailedIndexes", check.at_most(_MOST_WITH_MANY, _WITH_MANY)),
        ),
    ),
    check.when(
        lambda spec: spec.get("completionMode", "NonIndexed") == "NonIndexed",
        check.field("backoffLimitPerIndex maxFailedIndexes", check.never("requires indexed completion mode")),
    ),
)


def _listed(*allowed: str) -> Check:
    """Return the check of a required value; the message about a missing one lists the valid ones."""
    return check.stated(*allowed, words=f"valid values: [{' '.join(map(quoted, allowed))}]")


_codes_with_in = check.distinct(
    lambda is_new: check.rules(check.must(lambda code: code != 0, "must not be 0 for the In operator"), is_new)
)


def _exit_code_errors(rule: Object, names: set[str], path: str) -> Errors:
    operator, values, at = rule.get("operator", ""), rule.get("values", []), f"{path}.values"
    yield from _listed("In", "NotIn")(operator, f"{path}.operator")
    if "containerName" in rule and rule["containerName"] not in names:
        words = "must be one of the container or initContainer names in the pod template"
        yield invalid(f"{path}.containerName", rule["containerName"], words)
    if not values:
        yield invalid(at, values, "at least one value is required")
    yield from check.at_most_items(255)(values, at)
    yield from (_codes_with_in if operator == "In" else check.distinct())(values, at)
    if values != sorted(values):
        yield invalid(at, values, "must be ordered")


_patterns = check.rules(
    check.at_most_items(20),
    check.in_list(
        check.field("type", check.KEY, absent=""), check.field("status", _listed("False", "True", "Unknown"), absent="")
    ),
)


def _failure_policy_errors(spec: Object, path: str) -> Errors:
    listed = spec.get("podFailurePolicy", {}).get("rules", [])
    yield from check.at_most_items(20)(listed, f"{path}.podFailurePolicy.rules")
    pod = spec.get("template", {}).get("spec", {})
    names = {one.get("name", "") for group in ("containers", "initContainers") for one in pod.get(group, [])}
    for index, rule in enumerate(listed):
        at = f"{path}.podFailurePolicy.rules[{index}]"
        yield from _listed("Count", "FailIndex", "FailJob", "Ignore")(rule.get("action", ""), f"{at}.action")
        if rule.get("action") == "FailIndex" and "backoffLimitPerIndex" not in spec:
            yield invalid(f"{at}.action", "FailIndex", "requires the backoffLimitPerIndex to be set")
        has_codes, has_patterns = "onExitCodes" in rule, bool(rule.get("onPodConditions"))
        yield from _exit_code_errors(rule["onExitCodes"], names, f"{at}.onExitCodes") if has_codes else ()
        yield from check.field("onPodConditions", _patterns)(rule, at)
        if has_codes == has_patterns:
            start, end = ("both", "not supported") if has_codes else ("one of", "required")
            yield invalid(at, OMITTED, f"specifying {start} OnExitCodes and OnPodConditions is {end}")


def _replacement_errors(spec: Object, path: str) -> Errors:
    allowed = ("Failed",) if "podFailurePolicy" in spec else ("Failed", "TerminatingOrFailed")
    return check.field("podReplacementPolicy", check.one_of(*allowed))(spec, path)


def _restart_errors(spec: Object, path: str) -> Errors:
    policy = spec.get("template", {}).get("spec", {}).get("restartPolicy", "")
    path = f"{path}.template.spec.restartPolicy"
    if policy in ("", "Always"):
        yield required(path, 'valid values: "OnFailure", "Never"')
    elif policy not in ("OnFailure", "Never"):
        yield not_supported(path, policy, ("OnFailure", "Never"))
    elif "podFailurePolicy" in spec and policy != "Never":
        yield invalid(path, policy, 'only "Never" is supported when podFailurePolicy is specified')


_job = check.rules(
    check.field(
        "parallelism completions activeDeadlineSeconds backoffLimit ttlSecondsAfterFinished", check.not_negative
    ),
    check.field("backoffLimitPerIndex maxFailedIndexes", check.not_negative),
    check.when(
        lambda spec: "maxFailedIndexes" in spec,
        check.present("backoffLimitPerIndex", words="when maxFailedIndexes is specified"),
    ),
    check.field("managedBy", check.domain_prefixed_path, check.at_most_bytes(63)),
    check.field("completionMode", check.one_of("NonIndexed", "Indexed")),
    _mode,
    _failure_policy_errors,
    check.when(lambda spec: "successPolicy" in spec, _success_policy_errors),
    _replacement_errors,
    check.field("template", template_errors, absent={}),
    _restart_errors,
)
"""The check of the spec of a job, except its selector."""

_job_errors = check.rules(
    metadata_check(),
    _generated_errors,
    check.field("spec", _job, check.present("selector", selector_errors), label_match_errors, absent={}),
    _pod_name_errors,
)


def job_errors(obj: Object, path: str) -> Errors:
    """Check a job with its generated selector and uid; errors say UID for one that the API server is yet to draw."""
    meta = obj.get("metadata", {})
    made_up = generated_uid("Job", meta.get("namespace", ""), meta.get("name", ""))
    for error in _job_errors(obj, path):
        value, detail = (text.replace(made_up, "UID") for text in (error.value, error.detail))
        yield replace(error, value=value, detail=detail)


def _schedule_problems(schedule: str) -> Iterator[str]:
    try:
        read_schedule(schedule)
    except Unreadable as error:
        yield str(error)
    if "TZ" in schedule:
        yield "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"


def _zone_problems(zone: str) -> Iterator[str]:
    if not zone:
        yield "timeZone must be nil or non-empty string"
    elif not all(re.fullmatch(r"(?!-|\.{1,2}$)[A-Za-z._0-9+-]{1,14}", part) for part in zone.split("/")):
        yield f"unknown time zone {zone}"
    else:
        if zone.lower() == "local":
            yield "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        if not is_time_zone(zone):
            yield f"unknown time zone {zone}"


_manual = check.filled("manualSelector", lambda _, path: [not_supported(path, value=True, allowed=("nil", "false"))])
_name_length = check.must(lambda name: len(name.encode()) <= 52, "must be no more than 52 characters")
_generated = check.field(
    "selector", lambda selector, path: [invalid(path, shown_selector(selector), "`selector` will be auto-generated")]
)
_job_template = check.field("spec", _job, _generated, _manual, absent={})
cron_job_errors = check.rules(
    metadata_check(),
    check.field(
        "spec",
        check.needed("schedule", check.formed(_schedule_problems)),
        check.field("startingDeadlineSeconds", check.not_negative),
        check.field("timeZone", check.formed(_zone_problems)),
        check.enum("concurrencyPolicy", "Allow", "Forbid", "Replace"),
        check.field("jobTemplate", _job_template, absent={}),
        check.field("successfulJobsHistoryLimit failedJobsHistoryLimit", check.not_negative),
        absent={},
    ),
    check.field("metadata", lambda meta, path: _name_length(_full_name(meta), f"{path}.name"), absent={}),
)
