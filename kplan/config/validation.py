"""Validation of a configuration except for plugin arguments, and the defaults that it depends on.

Upstream: apis/config/v1/defaults.go, apis/config/validation/validation.go, component-base config/validation.
"""

from __future__ import annotations

from kplan.api.names import label_key_problems
from kplan.api.time import format_duration
from kplan.config.args import filled
from kplan.config.model import Extender, plain
from kplan.config.problems import Problems, child, index
from kplan.config.wire import KubeSchedulerConfiguration, LeaderElection
from kplan.rules.resources import is_extended


def validate_configuration(wire: KubeSchedulerConfiguration, problems: Problems) -> None:
    """Record what kube-scheduler refuses outside the profiles."""
    if wire.client_connection.burst < 0:
        hint = "write 0 or more; the default is 100"
        problems.invalid("clientConnection.burst", wire.client_connection.burst, "must be non-negative", hint)
    _leader_election(filled(wire.leader_election), problems)
    if wire.parallelism <= 0:
        detail = "should be an integer value greater than zero"
        problems.invalid("parallelism", wire.parallelism, detail, "write 1 or more; the default is 16")
    validate_percentage(wire.percentage_of_nodes_to_score, "percentageOfNodesToScore", problems)
    initial, longest = wire.pod_initial_backoff_seconds, wire.pod_max_backoff_seconds
    if initial <= 0:
        hint = "write 1 or more; the default is 1"
        problems.invalid("podInitialBackoffSeconds", initial, "must be greater than 0", hint)
    if longest < initial:
        detail = "must be greater than or equal to PodInitialBackoffSeconds"
        problems.invalid("podMaxBackoffSeconds", longest, detail, f"write {initial} or more; the default is 10")
    _extenders(wire.extenders, problems)


def validate_percentage(percentage: int | None, path: str, problems: Problems) -> None:
    """Record an invalid percentage of nodes."""
    if percentage is not None and not 0 <= percentage <= 100:
        hint = "write a number from 0 (adaptive) to 100 (every node)"
        problems.invalid(path, percentage, "not in valid range [0-100]", hint)


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
