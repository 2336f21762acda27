"""Cron jobs (pkg/apis/batch/validation ValidateCronJobCreate)."""

from __future__ import annotations

import re
from typing import Any

from kplan.admission.validation.errors import (
    Errors,
    invalid,
    not_negative,
    not_supported,
    required,
    required_enum_errors,
)
from kplan.admission.validation.jobs import job_spec_errors
from kplan.admission.validation.metadata import metadata_errors, shown_selector
from kplan.admission.validation.schedule import is_time_zone, schedule_problem
from kplan.admission.validation.texts import dns_subdomain

_POLICIES = ("Allow", "Forbid", "Replace")
_MOST_NAME = 52
_EXPLICIT = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"


def cron_job_errors(obj: dict[str, Any]) -> Errors:
    """Return what is wrong with a cron job."""
    metadata, spec = obj.get("metadata", {}), obj.get("spec", {})
    errors = metadata_errors(metadata, dns_subdomain)
    schedule = spec.get("schedule", "")
    errors += _schedule_errors(schedule) if schedule else [required("spec.schedule")]
    errors += not_negative(spec, "spec", "startingDeadlineSeconds")
    if "timeZone" in spec:
        errors += _zone_errors(spec["timeZone"], "spec.timeZone")
    errors += required_enum_errors(spec.get("concurrencyPolicy", ""), _POLICIES, "spec.concurrencyPolicy")
    job, at = spec.get("jobTemplate", {}).get("spec", {}), "spec.jobTemplate.spec"
    errors += job_spec_errors(job, at)
    if "selector" in job:
        errors.append(invalid(f"{at}.selector", shown_selector(job["selector"]), "`selector` will be auto-generated"))
    if job.get("manualSelector"):
        errors.append(not_supported(f"{at}.manualSelector", value=True, allowed=("nil", "false")))
    errors += not_negative(spec, "spec", "successfulJobsHistoryLimit", "failedJobsHistoryLimit")
    if len(metadata.get("name", "").encode()) > _MOST_NAME:
        errors.append(invalid("metadata.name", metadata["name"], f"must be no more than {_MOST_NAME} characters"))
    return errors


def _schedule_errors(schedule: str) -> Errors:
    problem = schedule_problem(schedule)
    errors = [invalid("spec.schedule", schedule, problem)] if problem else []
    if "TZ" in schedule:
        detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        errors.append(invalid("spec.schedule", schedule, detail))
    return errors


def _zone_errors(zone: str, path: str) -> Errors:
    if not zone:
        return [invalid(path, zone, "timeZone must be nil or non-empty string")]
    unknown = invalid(path, zone, f"unknown time zone {zone}")
    for part in zone.split("/"):
        if part in (".", "..") or part.startswith("-") or not re.fullmatch(r"[A-Za-z._0-9+-]{1,14}", part):
            return [unknown]
    errors = [invalid(path, zone, _EXPLICIT)] if zone.lower() == "local" else []
    return errors if is_time_zone(zone) else [*errors, unknown]
