"""Jobs and cron jobs (pkg/apis/batch/validation ValidateJob, validateSuccessPolicy, ValidateCronJobCreate)."""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache

import msgspec

from kplan.admission.validation import checks as check
from kplan.admission.validation.checks import Check, Errors, Object, go_struct, invalid, not_supported, quoted, required
from kplan.admission.validation.pods import label_match_errors, template_errors
from kplan.api.time import SECOND, parse_duration

_DESCRIPTORS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_FIELDS = ((0, 59, list[str]()), (0, 23, list[str]()), (1, 31, list[str]()), (1, 12, _MONTHS), (0, 6, _DAYS))
"""The bounds of each field of a schedule, and the names of its numbers."""

_MOST_DIGITS = 18  # a longer number is beyond int64, and beyond all that a field may hold


class _Unreadable(ValueError):  # noqa: N818 - becomes a field error
    """A schedule or indexes that do not parse."""


_MOST_DAYS = 5 * 366  #: for so many days the next time is looked for, as upstream does for five years


class Schedule(msgspec.Struct, frozen=True):
    """When a cron job runs."""

    #: minutes, hours, days, months, weekdays (0 for Sunday) at which it runs; empty with `every`
    fields: tuple[frozenset[int], ...] = ()
    any_day: bool = True  #: the day of the month or that of the week is not limited: both have to match
    every: int = 0  #: seconds between two runs; 0 for a schedule with fields

    def next_after(self, time: datetime, zone: str = "") -> datetime | None:
        """Return the first run after a time, in a time zone (empty for UTC); None for none within five years."""
        if self.every:
            return time.replace(microsecond=0) + timedelta(seconds=self.every)
        import zoneinfo

        local = time.astimezone(zoneinfo.ZoneInfo(zone) if zone and zone in _zones() else UTC)
        minutes, hours, days, months, weekdays = self.fields
        today = local.replace(second=0, microsecond=0)
        for offset in range(_MOST_DAYS):
            day = today + timedelta(days=offset) if offset else today
            in_month, in_week = day.day in days, (day.weekday() + 1) % 7 in weekdays
            if day.month not in months or not ((in_month and in_week) if self.any_day else (in_month or in_week)):
                continue
            times = _times_of_day(hours, minutes)
            later = bisect_left(times, 0 if offset else 60 * local.hour + local.minute + 1)
            if later < len(times):
                hour, minute = divmod(times[later], 60)
                return day.replace(hour=hour, minute=minute).astimezone(UTC)
        return None


@lru_cache(maxsize=1 << 10)
def _times_of_day(hours: frozenset[int], minutes: frozenset[int]) -> list[int]:
    """Return when a schedule runs on a day on which it does, in minutes since midnight."""
    return sorted(60 * hour + minute for hour in hours for minute in minutes)


def parse_schedule(schedule: str) -> Schedule | None:
    """Read a schedule; None for one that does not parse, which an API server refuses."""
    with suppress(_Unreadable):
        return _read(schedule)
    return None


def is_time_zone(name: str) -> bool:
    """Tell whether a time zone exists; True for any name on a machine without a time zone database."""
    zones = _zones()
    return not zones or name in zones or name in ("", "UTC", "Local")


@cache
def _zones() -> frozenset[str]:
    """Return the time zones of this machine's database; empty where it has none."""
    import zoneinfo

    return frozenset(zoneinfo.available_timezones())


def _read(schedule: str) -> Schedule:
    if not schedule:
        raise _Unreadable("empty spec string")
    if schedule.startswith(("TZ=", "CRON_TZ=")):
        zone, space, rest = schedule.partition(" ")
        if not space:
            raise _Unreadable("invalid schedule format: runtime error: slice bounds out of range [:-1]")
        zone = zone.partition("=")[2]
        if not is_time_zone(zone):
            raise _Unreadable(f"provided bad location {zone}: unknown time zone {zone}")
        schedule = rest.strip()
    if schedule in _DESCRIPTORS:
        return _read(_DESCRIPTORS[schedule])
    if schedule.startswith("@every "):
        duration = schedule.removeprefix("@every ")
        if (nanoseconds := parse_duration(duration)) is None:
            raise _Unreadable(f'failed to parse duration {schedule}: time: invalid duration "{duration}"')
        return Schedule(every=max(nanoseconds // SECOND, 1))
    if schedule.startswith("@"):
        raise _Unreadable(f"unrecognized descriptor: {schedule}")
    fields = schedule.split()
    if len(fields) != len(_FIELDS):
        raise _Unreadable(f"expected exactly {len(_FIELDS)} fields, found {len(fields)}: [{' '.join(fields)}]")
    parts = [re.split(",+", field.strip(",")) for field in fields]
    ranges = [[_read_range(part, *bounds) for part in own] for own, bounds in zip(parts, _FIELDS, strict=True)]
    # A star with a step limits the day.
    any_day = any(
        part[0] in "*?" and span.step == 1
        for place in (2, 4)
        for part, span in zip(parts[place], ranges[place], strict=True)
    )
    return Schedule(tuple(frozenset(number for span in spans for number in span) for spans in ranges), any_day)


def _read_range(text: str, low: int, high: int, listed: list[str]) -> range:
    names = {name: number for number, name in enumerate(listed, low)}
    parts = text.split("/")
    bounds = parts[0].split("-")
    is_single = len(bounds) == 1
    if bounds[0] in ("*", "?"):
        start, end = low, high
    else:
        start = _number(bounds[0], names)
        if len(bounds) > 2:
            raise _Unreadable(f"too many hyphens: {text}")
        end = start if is_single else _number(bounds[1], names)
    step = 1
    if len(parts) == 2:
        step = _number(parts[1], {})
        end = high if is_single else end
    elif len(parts) > 2:
        raise _Unreadable(f"too many slashes: {text}")
    if start < low:
        raise _Unreadable(f"beginning of range ({start}) below minimum ({low}): {text}")
    if end > high:
        raise _Unreadable(f"end of range ({end}) above maximum ({high}): {text}")
    if start > end:
        raise _Unreadable(f"beginning of range ({start}) beyond end of range ({end}): {text}")
    if step == 0:
        raise _Unreadable(f"step of range should be a positive number: {text}")
    return range(start, end + 1, step)


def _number(text: str, names: dict[str, int]) -> int:
    if text.lower() in names:
        return names[text.lower()]
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        raise _Unreadable(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax')
    if len(text) > _MOST_DIGITS:
        raise _Unreadable(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": value out of range')
    number = int(text)
    if number < 0:
        raise _Unreadable(f"negative number ({number}) not allowed: {text}")
    return number


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
        except _Unreadable as error:
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
            raise _Unreadable(f'the fragment "{part}" {words}')
        numbers = [_index(bound, completions) for bound in bounds]
        if last is not None and last >= numbers[0]:
            raise _Unreadable(f"non-increasing order, previous: {last}, current: {numbers[0]}")
        if len(numbers) == 2 and numbers[0] >= numbers[1]:
            raise _Unreadable(f"non-increasing order, previous: {numbers[0]}, current: {numbers[1]}")
        total += numbers[-1] - numbers[0] + 1
        last = numbers[-1]
    return total


def _index(text: str, completions: int) -> int:
    if not re.fullmatch(r"[+-]?[0-9]{1,19}", text):
        raise _Unreadable(f'cannot convert string to integer for index: "{text}"')
    number = int(text)
    if number >= completions:
        raise _Unreadable(f'too large index: "{text}"')
    return number


JOB_NAME, CONTROLLER_UID = "batch.kubernetes.io/job-name", "batch.kubernetes.io/controller-uid"
LEGACY_JOB_NAME, LEGACY_CONTROLLER_UID = "job-name", "controller-uid"
_MOST_PARALLEL = _MOST_FAILED = _MANY_COMPLETIONS = 100_000  # upstream maxParallelismForIndexedJob and others
_MOST_WITH_MANY = 10_000  # upstream parallelismLimitForHighCompletions and maxFailedIndexesLimitForHighCompletions
_WITH_MANY = f"when completions are above {_MANY_COMPLETIONS} and used with backoff limit per index"
_RANDOM_SUFFIX = "xxxxx"  #: as long as the suffix that the API server adds to a generateName


def _generated_errors(obj: Object, _: str) -> Errors:
    """Compare labels and selector with those that the API server generates (upstream validateGeneratedSelector)."""
    meta, spec = obj.get("metadata", {}), obj.get("spec", {})
    selector, labels = spec.get("selector"), spec.get("template", {}).get("metadata", {}).get("labels", {})
    if spec.get("manualSelector") or selector is None:
        return
    uid, name = meta.get("uid", ""), meta.get("name", "")
    wanted = {LEGACY_CONTROLLER_UID: uid, LEGACY_JOB_NAME: name, CONTROLLER_UID: uid, JOB_NAME: name}
    for key, value in wanted.items():
        at, words = f"spec.template.metadata.labels[{key}]", f"must be '{value}'"
        if labels.get(key) != value:
            yield invalid(at, labels, words) if key in labels else required(at, words)
    if check.selector_matches(selector, wanted) is False:
        yield invalid("spec.selector", check.shown_selector(selector), "`selector` not auto-generated")


def _pod_name_errors(obj: Object, _: str) -> Errors:
    meta, spec = obj.get("metadata", {}), obj.get("spec", {})
    if spec.get("completionMode") == "Indexed" and spec.get("completions", 0) > 0:
        name = meta.get("name") or f"{meta.get('generateName', '')}{_RANDOM_SUFFIX}"
        host = f"{name}-{spec['completions'] - 1}"
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
    listed, at = spec.get("podFailurePolicy", {}).get("rules", []), f"{path}.podFailurePolicy.rules"
    yield from check.at_most_items(20)(listed, at)
    pod = spec.get("template", {}).get("spec", {})
    names = {one.get("name", "") for group in ("containers", "initContainers") for one in pod.get(group, [])}
    for index, rule in enumerate(listed):
        yield from _failure_rule_errors(rule, spec, names, f"{at}[{index}]")


def _failure_rule_errors(rule: Object, spec: Object, names: set[str], path: str) -> Errors:
    yield from _listed("Count", "FailIndex", "FailJob", "Ignore")(rule.get("action", ""), f"{path}.action")
    if rule.get("action") == "FailIndex" and "backoffLimitPerIndex" not in spec:
        yield invalid(f"{path}.action", "FailIndex", "requires the backoffLimitPerIndex to be set")
    has_codes, has_patterns = "onExitCodes" in rule, bool(rule.get("onPodConditions"))
    yield from _exit_code_errors(rule["onExitCodes"], names, f"{path}.onExitCodes") if has_codes else ()
    yield from check.field("onPodConditions", _patterns)(rule, path)
    if has_codes == has_patterns:
        start, end = ("both", "not supported") if has_codes else ("one of", "required")
        yield invalid(path, check.OMITTED, f"specifying {start} OnExitCodes and OnPodConditions is {end}")


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

job_errors = check.rules(
    check.metadata(),
    _generated_errors,
    check.field("spec", _job, check.present("selector", check.selector_errors), label_match_errors, absent={}),
    _pod_name_errors,
)
"""The check of a job that has its generated selector and uid."""


def _schedule_problems(schedule: str) -> Iterator[str]:
    try:
        _read(schedule)
    except _Unreadable as error:
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
    "selector",
    lambda selector, path: [invalid(path, check.shown_selector(selector), "`selector` will be auto-generated")],
)
_job_template = check.field("spec", _job, _generated, _manual, absent={})
cron_job_errors = check.rules(
    check.metadata(),
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
    check.field("metadata", check.field("name", _name_length)),
)
