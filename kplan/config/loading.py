"""Loading a KubeSchedulerConfiguration: from a file or memory, or as that of a kube-scheduler started without one.

And the effective configuration as a document, with its differences from the default. The document says everything and
leaves nothing to defaults, so that loading it gives the same configuration. Private keys of extenders are left out, as
the output may end up in logs.

Upstream: apis/config/v1/defaults.go, apis/config/validation/validation.go, component-base config/validation.
"""

from __future__ import annotations

import os
import typing
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

import msgspec

from kplan.api.decode import DecodeError
from kplan.api.names import label_key_problems
from kplan.api.time import format_duration
from kplan.config.args import NodeResourcesFitArgs, PluginArgs, args_type, default_args, filled
from kplan.config.model import (
    EXTENSION_POINTS,
    POINT_NAMES,
    Extender,
    KubeSchedulerConfiguration,
    LeaderElection,
    PluginRef,
    Profile,
    SchedulerConfiguration,
    decode,
    plain,
)
from kplan.config.problems import API_VERSION, KIND, Problems, check_type_meta, child, go_value, index
from kplan.config.profiles import Warn, build_profiles
from kplan.config.releases import Release, chosen_release, newest, reference, with_gates
from kplan.config.releases.model import release_notes
from kplan.errors import ConfigError, Problem, UsageError
from kplan.facts import Document, InputWarning
from kplan.reading.documents import read_documents
from kplan.reading.files import SETTINGS
from kplan.rules.resources import is_extended


def validate_configuration(wire: KubeSchedulerConfiguration, problems: Problems) -> None:
    if wire.client_connection.burst < 0:
        hint = "write 0 or more; the default is 100"
        problems.invalid("clientConnection.burst", wire.client_connection.burst, "must be non-negative", hint)
    _leader_election(filled(wire.leader_election), problems)
    if wire.parallelism <= 0:
        detail = "should be an integer value greater than zero"
        problems.invalid("parallelism", wire.parallelism, detail, "write 1 or more; the default is 16")
    problems.check_percentage("percentageOfNodesToScore", wire.percentage_of_nodes_to_score)
    initial, longest = wire.pod_initial_backoff_seconds, wire.pod_max_backoff_seconds
    if initial <= 0:
        hint = "write 1 or more; the default is 1"
        problems.invalid("podInitialBackoffSeconds", initial, "must be greater than 0", hint)
    if longest < initial:
        detail = "must be greater than or equal to PodInitialBackoffSeconds"
        problems.invalid("podMaxBackoffSeconds", longest, detail, f"write {initial} or more; the default is 10")
    _extenders(wire.extenders, problems)


def settings_of(wire: KubeSchedulerConfiguration) -> dict[str, object]:
    """Return the fields that do not affect scheduling, with defaults, as values of the document."""
    profiling, contention = wire.enable_profiling, wire.enable_contention_profiling
    return {
        "leaderElection": plain(filled(wire.leader_election)),
        "clientConnection": plain(filled(wire.client_connection)),
        "enableProfiling": profiling,
        "enableContentionProfiling": profiling if contention is None else contention,
        "delayCacheUntilActive": wire.delay_cache_until_active,
    }


def _leader_election(election: LeaderElection, problems: Problems) -> None:
    if not election.leader_elect:
        return
    for field, duration in (
        ("leaseDuration", election.lease_duration),
        ("renewDeadline", election.renew_deadline),
        ("retryPeriod", election.retry_period),
    ):
        if duration <= 0:
            place = child("leaderElection", field)
            problems.invalid(place, format_duration(duration), "must be greater than zero", "write a duration: 15s")
    if election.lease_duration <= election.renew_deadline:
        deadline = format_duration(election.renew_deadline)
        problems.invalid(
            "leaderElection.leaseDuration",
            format_duration(election.lease_duration),
            "must be greater than `RenewDeadline`",
            f"write more than renewDeadline ({deadline}), or lower that too",
        )
    if election.resource_lock != "leases":
        detail = 'resourceLock value must be "leases"'
        problems.invalid("leaderElection.resourceLock", election.resource_lock, detail, "write leases or leave it out")


def _extenders(extenders: tuple[Extender, ...], problems: Problems) -> None:
    names: set[str] = set()
    for i, extender in enumerate(extenders):
        path = index("extenders", i)
        if extender.prioritize_verb and extender.weight <= 0:
            detail = "must have a positive weight applied to it"
            hint = "write weight: 1 or more, or remove prioritizeVerb"
            problems.invalid(child(path, "weight"), extender.weight, detail, hint)
        for j, resource in enumerate(extender.managed_resources):
            place = child(index(child(path, "managedResources"), j), "name")
            _managed_resource(resource.name, place, problems)
            if resource.name in names:
                detail = "duplicate extender managed resource name"
                problems.invalid(place, resource.name, detail, "let one extender manage it, named once")
            names.add(resource.name)
        tls = extender.tls_config
        if tls is not None and tls.insecure and (tls.ca_file or tls.ca_data):
            detail = "specifying a root certificates file with the insecure flag is not allowed"
            hint = "remove insecure, or caFile and caData"
            problems.invalid(child(path, "tlsConfig", "insecure"), tls.insecure, detail, hint)
    binders = [i for i, extender in enumerate(extenders) if extender.bind_verb]
    if len(binders) > 1:
        problems.invalid(
            "extenders",
            f"found {len(binders)} extenders implementing bind",
            "only one extender can implement bind",
            f"remove bindVerb from {' or '.join(index('extenders', i) for i in binders)}",
        )


def _managed_resource(name: str, path: str, problems: Problems) -> None:
    hint = "write an extended resource with its domain, such as example.com/device"
    errors = label_key_problems(name)
    for error in errors:
        problems.invalid(path, name, error, hint)
    if not errors and not is_extended(name):
        problems.invalid(path, name, "is an invalid extended resource name", hint)


DEFAULT_SCHEDULER_NAME: Final = "default-scheduler"


def default_profile(release: Release) -> Profile:
    plugins = {
        point: tuple(
            PluginRef(name, (weight or 1) if point == "score" else 0)
            for name, weight in release.default_plugins
            if point in release.implements[name]
        )
        for point in EXTENSION_POINTS
    }
    args = {name: default_args(name, release) for name, _ in release.default_plugins if args_type(name, release)}
    return Profile(DEFAULT_SCHEDULER_NAME, plugins=MappingProxyType(plugins), args=MappingProxyType(args))


def default_configuration(release: Release | None = None) -> SchedulerConfiguration:
    """Return the default configuration: one profile, `default-scheduler`, every default plugin of the release."""
    return _default_configuration(release or reference())


@lru_cache(maxsize=16)
def _default_configuration(release: Release) -> SchedulerConfiguration:
    settings = MappingProxyType(settings_of(KubeSchedulerConfiguration()))
    return SchedulerConfiguration(
        profiles=(default_profile(release),),
        settings=settings,
        release=release,
        warnings=release_warnings(release),
    )


def release_warnings(release: Release) -> tuple[InputWarning, ...]:
    """Return the warnings about a release that kplan only partly knows."""
    return tuple(
        InputWarning("ReleaseNotCompared", f"Kubernetes {release.minor}", note) for note in release_notes(release)
    )


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
    wire = decode(value, KubeSchedulerConfiguration, "", problems)
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


_EXPECTED = "a KubeSchedulerConfiguration; begin with: apiVersion: kubescheduler.config.k8s.io/v1"


class ConfigDocument(msgspec.Struct, frozen=True):
    """A document of a file, as plain values."""

    value: object
    problems: Problems
    others: int = 0  #: documents of the file that follow it


def read_file(path: str) -> ConfigDocument:
    """Read the first document of a file, or of standard input for `-`.

    Raises ConfigError when the file is missing, is no text, or neither YAML nor JSON.
    """
    unread: list[Problem] = []
    documents = list(read_documents(path, unread, limits=SETTINGS, expected=_EXPECTED))
    if unread:
        raise ConfigError(unread)
    if not documents:
        raise ConfigError([Problem("holds comments only", path=path, hint=f"expected {_EXPECTED}")])
    first = documents[0]
    try:
        value = first.value()
    except DecodeError as error:
        raise ConfigError([first.locate(problem) for problem in error.problems]) from None
    problems = Problems(first.file, lines=first.lines)
    for repeated in first.duplicates():
        place = repeated.path.removeprefix("$").removeprefix(".")
        problems.add(place, f"duplicate field {go_value(place)}", "keep one of the two")
    return ConfigDocument(value, problems, others=len(documents) - 1)


def load_scheduler_config(
    source: str | os.PathLike[str] | dict[str, object] | None = None,
    *,
    kubernetes: str | None = None,
    feature_gates: Mapping[str, bool] | None = None,
) -> SchedulerConfiguration:
    """Load a scheduler configuration as kube-scheduler reads it.

    Parameters
    ----------
    source : the path of a YAML or JSON file, `-` for standard input, the document itself as a dictionary, or None for
        the defaults
    kubernetes : the minor that reads it, such as ``1.34``; None for the newest that was compared with its own code, or
        else any newer one, until a planner knows the server's
    feature_gates : feature gates of that kube-scheduler that differ from their defaults

    Raises
    ------
    UsageError
        When there is no such release, or a feature gate cannot be set.
    ConfigError
        When kube-scheduler refuses it; `problems` holds every reason with its path and a hint.
    """
    gates = feature_gates or {}
    chosen = chosen_release(kubernetes, gates)
    if chosen is not None:
        return replace(read_configuration(source, chosen), is_release_explicit=True)
    try:
        return read_configuration(source, with_gates(reference(), gates))
    except ConfigError:
        # A planner reads it again, with the gates and the server's release that it knows: what some known release
        # accepts may be right there.
        if gates or newest() is reference():
            raise
        with suppress(ConfigError):
            return read_configuration(source, newest())
        raise


def read_configuration(
    source: str | os.PathLike[str] | dict[str, object] | None, release: Release
) -> SchedulerConfiguration:
    """Load a scheduler configuration as a release reads it; source and errors as for `load_scheduler_config`."""
    if source is None:
        return default_configuration(release)
    if isinstance(source, dict):
        return _load(source, "object", Problems("", release=release), others=0)
    if not isinstance(source, str | os.PathLike):
        raise UsageError(f"{source!r} is no configuration", hint="give a path, a dict, or None for the defaults")
    document = read_file(os.fspath(source))
    document.problems.release = release
    return _load(document.value, document.problems.file, document.problems, document.others)


def read_again(config: SchedulerConfiguration, release: Release) -> SchedulerConfiguration:
    """Return the configuration as another release reads the same file.

    Raises ConfigError when that release refuses it.
    """
    if config.release == release:
        return config
    if config.document is None:
        return default_configuration(release)
    file = "" if config.source == "object" else config.source
    return _load(config.document, config.source, Problems(file, release=release), others=config.other_documents)


def _load(value: object, source: str, problems: Problems, others: int) -> SchedulerConfiguration:
    # most clusters run the default configuration

    return configuration_of(value, source, problems, others)


class Difference(Document, frozen=True):
    """A field of the configuration whose value is not the default.

    Attributes
    ----------
    default : null for a value that is absent
    effective : null for a value that is absent
    """

    path: str
    default: Any
    effective: Any


def to_document(config: SchedulerConfiguration) -> dict[str, object]:
    """Return the configuration as a document that kube-scheduler accepts, in plain JSON values."""
    document: dict[str, object] = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "parallelism": config.parallelism,
        "percentageOfNodesToScore": config.percentage_of_nodes_to_score,
        "podInitialBackoffSeconds": config.pod_initial_backoff_seconds,
        "podMaxBackoffSeconds": config.pod_max_backoff_seconds,
        **config.settings,
        "profiles": [_profile(profile) for profile in config.profiles],
    }
    if config.extenders:
        document["extenders"] = [plain(extender) for extender in config.extenders]
    return document


def args_document(profile: Profile) -> dict[str, typing.Any]:
    """Return the arguments of a profile's plugins by plugin name, as in a file."""
    return {name: plain(args) for name, args in sorted(profile.args.items())}


def differences(config: SchedulerConfiguration) -> tuple[Difference, ...]:
    """Return the differences from the default configuration, in the order of the document.

    A list counts as one value. Every profile is compared with the default one, except for its name.
    """
    effective, default = to_document(config), to_document(default_configuration(config.release))
    differing: list[Difference] = []
    for name in dict.fromkeys((*default, *effective)):
        if name != "profiles":
            differing.extend(_compare(name, default.get(name), effective.get(name)))
    for i, profile in enumerate(config.profiles):
        differing.extend(_compare_profile(index("profiles", i), profile, config.release))
    return tuple(differing)


def _compare_profile(path: str, profile: Profile, release: Release) -> list[Difference]:
    default = default_configuration(release).profiles[0]
    differing = []
    for field, default_value, value in (
        ("schedulerName", default.scheduler_name, profile.scheduler_name),
        ("percentageOfNodesToScore", default.percentage_of_nodes_to_score, profile.percentage_of_nodes_to_score),
    ):
        differing.extend(_compare(child(path, field), default_value, value))
    for point, refs in profile.plugins.items():
        place = child(path, "plugins", POINT_NAMES[point], "enabled")
        differing.extend(_compare(place, _refs(default.plugins[point]), _refs(refs)))
    default_args = args_document(default)
    for position, (name, args) in enumerate(args_document(profile).items()):
        place = child(index(child(path, "pluginConfig"), position), "args")
        differing.extend(_compare(place, default_args.get(name), args))
    return differing


def _compare(path: str, default: object, effective: object) -> list[Difference]:
    if isinstance(default, dict) and isinstance(effective, dict):
        fields = dict.fromkeys((*default, *effective))
        return [
            difference
            for field in fields
            for difference in _compare(child(path, field), default.get(field), effective.get(field))
        ]
    return [] if default == effective else [Difference(path, default, effective)]


def _profile(profile: Profile) -> dict[str, object]:
    plugins: dict[str, object] = {"multiPoint": {"disabled": [{"name": "*"}]}}
    for point, refs in profile.plugins.items():
        if refs:
            plugins[POINT_NAMES[point]] = {"enabled": _refs(refs)}
    document: dict[str, object] = {"schedulerName": profile.scheduler_name}
    if profile.percentage_of_nodes_to_score is not None:
        document["percentageOfNodesToScore"] = profile.percentage_of_nodes_to_score
    document["plugins"] = plugins
    document["pluginConfig"] = [
        # Arguments of an in-tree plugin have their apiVersion and kind, which a file may leave out.
        {"name": name, "args": {"apiVersion": API_VERSION, "kind": f"{name}Args", **args}}
        if isinstance(profile.args[name], PluginArgs)
        else {"name": name, "args": args}
        for name, args in args_document(profile).items()
    ]
    return document


def _refs(refs: tuple[PluginRef, ...]) -> list[dict[str, object]]:
    return [{"name": ref.name, "weight": ref.weight} if ref.weight else {"name": ref.name} for ref in refs]
