"""The settings of Karpenter.

Upstream: operator/options/options.go.

The releases of Karpenter, by what each decides otherwise than the newest; and the one that a cluster runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from kplan.api.names import choice_hint
from kplan.api.workloads import Deployment
from kplan.errors import UsageError
from kplan.facts import InputWarning
from kplan.snapshot.model import Snapshot


class Release(msgspec.Struct, frozen=True, kw_only=True):
    """A minor of Karpenter. What is true of the newest is the default."""

    name: str
    #: nodes that save most for what they disrupt come first; else those that disrupt least
    ranks_by_savings: bool = True
    #: a node whose pods cost nothing to evict is empty; else only one without pods to move
    empties_costless: bool = True
    spares_young: bool = True  #: consolidation moves no pod to a node whose pool's consolidateAfter has not passed
    #: a node costs what the first offering of its zone and capacity type does, or nothing; else what the
    #: cheapest does that its labels allow
    prices_by_zone: bool = True
    #: a new node costs what the cheapest offering does that it may have; else that its type has
    saves_by_requirements: bool = True
    #: a daemon counts, by its name, for the instance types on which it runs; else for all of a pool
    daemons_by_type: bool = True
    daemons_find_ready: bool = True  #: daemons that select nodes that are registered and initialized count for new ones
    fits_where_offered: bool = True  #: a type without an offering counts as too small, too, where reasons are told
    claims_of_pods: bool = True  #: a pod that names resource claims uses them; else one whose containers do
    counts_resizes: bool = True  #: pods that are resized in place use what their node still holds for them
    varies_by_offering: bool = True  #: offerings may have other amounts than their type
    allocates_devices: bool = True  #: pods with resource claims need devices, unless they are left alone
    buffers: bool = True  #: it has the gate CapacityBuffer
    balances: bool = True  #: the consolidation policy Balanced weighs what is saved against what is disrupted


NEWEST = Release(name="1.14")
_NEW_IN_1_14 = Release.__struct_fields__[1:]
RELEASES = (Release(name="1.13", **dict.fromkeys(_NEW_IN_1_14, False)), NEWEST)  #: the oldest first

_VERSION = re.compile(r"v?(\d{1,3})\.(\d{1,3})(?:[.+-].*)?", re.ASCII | re.DOTALL)
_NAME = "karpenter"
_NAMED, _VERSIONED = "app.kubernetes.io/name", "app.kubernetes.io/version"


def _number(version: str) -> tuple[int, int] | None:
    match = _VERSION.fullmatch(version)
    return None if match is None else (int(match[1]), int(match[2]))


_BY_NUMBER = {_number(release.name) or (0, 0): release for release in RELEASES}


def release_named(version: str) -> Release:
    """Return the release of a version such as ``1.14`` or ``v1.14.1``; raises UsageError for one that is not known."""
    release = _BY_NUMBER.get(_number(version) or (0, 0))
    if release is None:
        hint = choice_hint(version, [release.name for release in RELEASES])
        raise UsageError(f"karpenter {version[:40]!r} is not known", hint=hint)
    return release


def release_in(snapshot: Snapshot) -> tuple[Release, tuple[InputWarning, ...]]:
    """Return the release that a cluster runs, or the nearest that is known, with a warning; else the newest."""
    for deployment in snapshot.deployments:
        for text in _versions(deployment):
            number = _number(text)
            if number is None:
                continue
            nearest = max((known for known in _BY_NUMBER if known <= number), default=min(_BY_NUMBER))
            release = _BY_NUMBER[nearest]
            if nearest == number:
                return release, ()
            message = f"the cluster runs karpenter {text}: decided as {release.name} does, the nearest that is known"
            return release, (InputWarning("KarpenterVersion", deployment.metadata.key, message),)
    return NEWEST, ()


def _versions(deployment: Deployment) -> Iterator[str]:
    labels = deployment.metadata.labels
    if _NAME not in {labels.get(_NAMED), deployment.metadata.name}:
        return
    if version := labels.get(_VERSIONED):
        yield version
    for container in deployment.spec.template.spec.containers:
        image, _, _ = container.image.partition("@")
        name, _, tag = image.rpartition(":")
        if _NAME in name and "/" not in tag:
            yield tag


GATES = {
    "NodeRepair": False,
    "ReservedCapacity": True,
    "SpotToSpotConsolidation": False,
    "NodeOverlay": False,
    "StaticCapacity": False,
    "CapacityBuffer": False,
}
"""Karpenter's feature gates, and whether they are on by default."""


class Options(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The settings of Karpenter that decide."""

    preference_policy: Literal["Respect", "Ignore"] = "Respect"  #: whether preferences are tried first, or ignored
    #: whether minValues are kept, or lowered where they cannot be
    min_values_policy: Literal["Strict", "BestEffort"] = "Strict"
    #: leave pods with resource claims alone
    ignore_dra_requests: bool = msgspec.field(default=True, name="ignoreDRARequests")
    feature_gates: dict[str, bool] = {}  #: gates that are not as by default
    marked_for_deletion: tuple[str, ...] = ()  #: nodes that Karpenter, in its memory, is removing
    nominated: tuple[str, ...] = ()  #: nodes that it keeps for pending pods
    #: look for what is consolidatable or drifted at this moment; otherwise take the conditions as they are
    derive_conditions: bool = True
    static: bool = False  #: run the controllers of pools with replicas, too
    #: GROUP/KIND of the node classes of the running provider; empty: as the cluster tells
    supported_node_classes: tuple[str, ...] = ()
    #: keys that the provider's nodes never have as storage classes that allow only some topologies name them;
    #: pods that need a volume of such a class are left alone
    unsupported_topology_keys: frozenset[str] = frozenset()
    #: drivers of which the provider's nodes have none; pods with their volumes are left alone
    unsupported_provisioners: frozenset[str] = frozenset()

    @property
    def ignores_preferences(self) -> bool:
        return self.preference_policy == "Ignore"

    @property
    def relaxes_min_values(self) -> bool:
        return self.min_values_policy == "BestEffort"

    def is_on(self, gate: str) -> bool:
        return self.feature_gates.get(gate, GATES[gate])


def read_options(options: Mapping[str, Any]) -> Options:
    """Return settings from their names and values.

    Raises UsageError for a setting or gate that Karpenter does not have, or a value that it does not take.
    """
    known = Options.__struct_encode_fields__
    for name in options:
        if name not in known:
            raise UsageError(f"karpenter has no option {name!r}", hint=choice_hint(name, known))
    try:
        settings = msgspec.convert(dict(options), Options)
    except msgspec.ValidationError as error:
        raise UsageError(f"karpenter: {error}", hint=f"options are {', '.join(known)}") from None
    for gate in settings.feature_gates:
        if gate not in GATES:
            raise UsageError(f"karpenter has no feature gate {gate!r}", hint=choice_hint(gate, GATES))
    return settings
