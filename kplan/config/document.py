"""The configuration that a document holds: decoded, defaulted, validated, expanded; all problems at once."""

from __future__ import annotations

from types import MappingProxyType

import msgspec

from kplan.config.args import NodeResourcesFitArgs, filled
from kplan.config.decoding import decode
from kplan.config.defaults import release_warnings
from kplan.config.foreign import check_type_meta
from kplan.config.model import Extender, Profile, SchedulerConfiguration
from kplan.config.problems import Problems, child, index
from kplan.config.profiles import Warn, build_profiles
from kplan.config.validation import settings_of, validate_configuration
from kplan.config.wire import KubeSchedulerConfiguration
from kplan.facts import InputWarning


def configuration_of(value: object, source: str, problems: Problems, others: int) -> SchedulerConfiguration:
    """Return the configuration; raises ConfigError with every problem.

    Parameters
    ----------
    value : the document as plain values
    source : the file, or "object"
    problems : those of reading it, and the release that reads it
    others : documents of the file that follow it
    """
    if not check_type_meta(value, problems):
        problems.raise_if_any()
    warnings: list[InputWarning] = list(release_warnings(problems.release))

    def warn(code: str, subject: str, message: str) -> None:
        warnings.append(InputWarning(code=code, object=subject, message=message))

    if others:
        text = f"only the first document is read, as by kube-scheduler; {others} more in the file"
        warn("IgnoredConfiguration", source, text)
    wire = decode(value, KubeSchedulerConfiguration, "", problems, type_meta=True)
    validate_configuration(wire, problems)
    profiles = build_profiles(wire.profiles, problems, warn)
    profiles = _ignore_extender_resources(profiles, wire.extenders, problems, warn)
    problems.raise_if_any(value)
    return SchedulerConfiguration(
        profiles=profiles,
        percentage_of_nodes_to_score=wire.percentage_of_nodes_to_score,
        parallelism=wire.parallelism,
        pod_initial_backoff_seconds=wire.pod_initial_backoff_seconds,
        pod_max_backoff_seconds=wire.pod_max_backoff_seconds,
        extenders=tuple(map(filled, wire.extenders)),
        source=source,
        warnings=tuple(warnings),
        settings=MappingProxyType(settings_of(wire)),
        release=problems.release,
        document=value,
        other_documents=others,
    )


def _ignore_extender_resources(
    profiles: tuple[Profile, ...], extenders: tuple[Extender, ...], problems: Problems, warn: Warn
) -> tuple[Profile, ...]:
    """Return profiles whose NodeResourcesFit ignores the extenders' resources, in place of its own list.

    Upstream: scheduler.go buildExtenders.
    """
    ignored: list[str] = []
    place = ""
    for i, extender in enumerate(extenders):
        for j, resource in enumerate(extender.managed_resources):
            if resource.ignored_by_scheduler:
                ignored.append(resource.name)
                at = index(child(index("extenders", i), "managedResources"), j)
                place = place or child(at, "ignoredByScheduler")
    if not ignored:
        return profiles
    changed = []
    for profile in profiles:
        fit = profile.args.get("NodeResourcesFit")
        if not isinstance(fit, NodeResourcesFitArgs):
            hint = f"enable NodeResourcesFit in profile {profile.scheduler_name}, or remove ignoredByScheduler"
            problems.add(place, "can't find NodeResourcesFitArgs in plugin config", hint)
            continue
        if fit.ignored_resources:
            text = f"the ignoredResources of NodeResourcesFit give way to those of the extenders: {', '.join(ignored)}"
            warn("IgnoredConfiguration", f"profile {profile.scheduler_name}", text)
        replaced = msgspec.structs.replace(fit, ignored_resources=tuple(ignored))
        args = MappingProxyType({**profile.args, "NodeResourcesFit": replaced})
        changed.append(Profile(profile.scheduler_name, profile.plugins, args, profile.percentage_of_nodes_to_score))
    return tuple(changed)
