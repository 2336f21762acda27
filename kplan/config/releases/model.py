"""The data that differs between Kubernetes minors.

A minor is described by its differences from a neighbour, with `Release.but`. Code that depends on the minor reads the
release, so that a new minor is an entry in `kplan.config.releases.minors` and nothing else.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Final, TypeVar

import msgspec
from msgspec import structs

from kplan.errors import UsageError

V = TypeVar("V")

HEAP: Final = "heap"
"""Between equal best nodes: the first one that the heap of nodes and scores yields, without a draw."""
EVEN: Final = "even"  #: between equal best nodes: each is as likely as the others
_TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "false", "FALSE", "False"})


class Gate(msgspec.Struct, frozen=True):
    """A feature gate of a minor: whether it is on by default, its stage, and whether it is locked."""

    is_on: bool
    stage: str
    is_locked: bool = False


class Texts(msgspec.Struct, frozen=True):
    """Messages of kube-scheduler that differ between minors."""

    untolerated_taint: str  #: why TaintToleration rejects; ``{key}`` and ``{value}`` stand for the first such taint
    read_write_once_pod: str  #: why VolumeRestrictions rejects a node where another pod uses the volume
    #: queue_sort_differs, utilization_order: what is wrong with a configuration
    queue_sort_differs: str
    utilization_order: str
    #: what DefaultPreemption says where it makes room; ``{node}`` and ``{n}`` stand for it and how many pods leave
    preemption_found: str


class Rules(msgspec.Struct, frozen=True):
    """Behaviour that differs between minors."""

    #: NodeResourcesBalancedAllocation scores how a pod changes a node's balance, rather than the balance with the pod
    scores_change_of_balance: bool
    #: NodeResourcesFit returns UnschedulableAndUnresolvable where a pod requests more than an empty node has
    rejects_too_large_for_good: bool
    scores_image_volumes: bool  #: ImageLocality counts images that are mounted as volumes
    #: in-tree Portworx volumes count towards the limit of the CSI driver only on nodes whose CSINode lists the plugin
    #: as migrated
    migrates_portworx_by_annotation: bool
    counts_ports_of_sidecars: bool  #: NodePorts looks at host ports of restartable init containers
    #: NodeResourcesFitArgs must have a shape where the strategy needs one, and none elsewhere
    checks_ratio_by_type: bool
    nominates_gated_pods: bool  #: the nomination of a pod with scheduling gates reserves room on its node
    ties: str  #: how the scheduler chooses between equal best nodes, HEAP or EVEN


class Patch(msgspec.Struct, frozen=True):
    """Differences before a patch release of a minor: texts and rules by the names of `Texts` and `Rules`."""

    before: int
    texts: Mapping[str, str] = {}
    rules: Mapping[str, bool | str] = {}


class Release(msgspec.Struct, frozen=True, eq=False, dict=True):
    """A minor of Kubernetes, at a patch release where that is known, with its feature gates as they are set."""

    minor: str  #: such as "1.36"
    source: str  #: the tag of Kubernetes' sources from which this data is
    gates: Mapping[str, Gate]  #: the feature gates that scheduling depends on
    #: gate -> the gates without which kube-scheduler does not start while it is on
    needs: Mapping[str, tuple[str, ...]]
    #: plugin -> the extension points that it implements; in-tree ones, and those compiled in besides
    implements: Mapping[str, frozenset[str]]
    #: the default profile's `multiPoint` with all gates on, in order, with the weight that counts where the plugin
    #: scores (0: none given)
    profile: tuple[tuple[str, int], ...]
    plugin_gates: Mapping[str, str]  #: in-tree plugin -> its feature gate
    removed_plugins: Mapping[str, str]  #: plugins that configuration v1 refuses by name -> their replacement
    texts: Texts
    rules: Rules
    #: (type, field) of the configuration that this minor does not have; the field * means the whole type
    absent_fields: frozenset[tuple[str, str]] = frozenset()
    patches: tuple[Patch, ...] = ()
    patch: int | None = None  #: the patch release, where it is known
    #: whether decisions were compared with this minor's own code; without, it follows from its release notes
    is_compared: bool = True
    #: gate that an older minor has -> the gate of this one that it became a part of
    merged_gates: Mapping[str, str] = {}
    stands_for: int | None = None  #: the number of the unknown minor that was asked for instead
    switched: Mapping[str, bool] = {}  #: gate -> whether it is on, for gates that are set
    #: plugin that was compiled in besides -> the extension points that it implements
    out_of_tree: Mapping[str, frozenset[str]] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Release) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @cached_property
    def _key(self) -> tuple[object, ...]:
        data = (self.minor, self.patch, self.stands_for, self.source, self.texts, self.rules)
        return (*data, tuple(sorted(self.switched.items())), tuple(sorted(self.out_of_tree)))

    @property
    def version(self) -> str:
        """Minor and patch: "1.34.1", or the minor alone where no patch is known."""
        return self.minor if self.patch is None else f"{self.minor}.{self.patch}"

    @property
    def number(self) -> int:
        """The minor's number: 36 for "1.36"."""
        return int(self.minor.partition(".")[2])

    def is_on(self, gate: str) -> bool:
        """Tell whether a feature gate is on; one that this minor does not have is off, unless another has its part."""
        gate = self.merged_gates.get(gate, gate)
        if gate in self.switched:
            return self.switched[gate]
        return gate in self.gates and self.gates[gate].is_on

    @cached_property
    def gated_plugins(self) -> Mapping[str, str]:
        return {plugin: gate for plugin, gate in self.plugin_gates.items() if not self.is_on(gate)}

    @cached_property
    def default_plugins(self) -> tuple[tuple[str, int], ...]:
        """The default profile's `multiPoint`, in order, each plugin with its weight."""
        return tuple((name, weight) for name, weight in self.profile if name not in self.gated_plugins)

    def with_plugins(self, out_of_tree: Mapping[str, frozenset[str]]) -> Release:
        if not out_of_tree:
            return self
        return structs.replace(self, implements={**self.implements, **out_of_tree}, out_of_tree=out_of_tree)

    def at_patch(self, patch: int | None) -> Release:
        texts, rules = self.texts, self.rules
        for change in self.patches:
            if patch is not None and patch < change.before:
                texts = structs.replace(texts, **change.texts)
                rules = structs.replace(rules, **change.rules)
        return structs.replace(self, patch=patch, texts=texts, rules=rules)

    def but(
        self,
        minor: str,
        source: str,
        *,
        gates: Mapping[str, Gate | None] = MappingProxyType({}),
        needs: Mapping[str, tuple[str, ...]] | None = None,
        implements: Mapping[str, frozenset[str] | None] = MappingProxyType({}),
        weights: Mapping[str, int] = MappingProxyType({}),
        absent_fields: frozenset[tuple[str, str]] = frozenset(),
        texts: Mapping[str, str] = MappingProxyType({}),
        rules: Mapping[str, bool | str] = MappingProxyType({}),
        patches: tuple[Patch, ...] = (),
        merged_gates: Mapping[str, str] = MappingProxyType({}),
        is_compared: bool = True,
    ) -> Release:
        """Return another minor, by its differences from this one.

        A gate or plugin that is None is one that the other minor does not have; `weights` are those of the default
        profile, and `needs` those of this minor where they are None.
        """
        known, plugins = _changed(self.gates, gates), _changed(self.implements, implements)
        return structs.replace(
            self,
            minor=minor,
            source=source,
            gates=known,
            needs={gate: others for gate, others in (self.needs if needs is None else needs).items() if gate in known},
            implements=plugins,
            profile=tuple((name, weights.get(name, weight)) for name, weight in self.profile if name in plugins),
            plugin_gates={plugin: gate for plugin, gate in self.plugin_gates.items() if plugin in plugins},
            texts=structs.replace(self.texts, **texts),
            rules=structs.replace(self.rules, **rules),
            absent_fields=self.absent_fields | absent_fields,
            patches=patches,
            merged_gates=merged_gates,
            is_compared=is_compared,
        )


def _changed(old: Mapping[str, V], changes: Mapping[str, V | None]) -> dict[str, V]:
    return {key: value for key, value in {**old, **changes}.items() if value is not None}


def parse_gates(text: str) -> dict[str, bool]:
    """Parse ``NAME=BOOL,…`` as kube-scheduler's ``--feature-gates`` does; raises UsageError for another form."""
    gates: dict[str, bool] = {}
    for part in text.split(","):
        name, separator, value = (word.strip() for word in part.partition("="))
        if not name and not separator:
            continue
        if not separator or not name:
            raise UsageError(f"--feature-gates: missing bool value for {part.strip()}", hint="write NAME=true or false")
        if value not in _TRUE | _FALSE:
            hint = f"write {name}=true or {name}=false"
            raise UsageError(f"--feature-gates: invalid value of {name}={value}, expected a bool", hint=hint)
        gates[name] = value in _TRUE
    return gates


def with_gates(release: Release, gates: Mapping[str, bool]) -> Release:
    """Return a release with feature gates set.

    Raises UsageError for a gate that the release does not have, or that is locked. Upstream: component-base
    featuregate/feature_gate.go SetFromMap.
    """
    if not gates:
        return release
    for name, is_on in gates.items():
        gate = release.gates.get(name)
        if gate is None and name in release.merged_gates:
            message = f"feature gate {name} is a part of {release.merged_gates[name]} in Kubernetes {release.minor}"
            raise UsageError(message, hint=f"write {release.merged_gates[name]} instead")
        if gate is None:
            near = difflib.get_close_matches(name, release.gates, n=1)
            hint = (
                f"did you mean {near[0]}?" if near else "kplan config show lists the gates that scheduling depends on"
            )
            message = f"no feature gate {name!r} touches scheduling in Kubernetes {release.minor}"
            raise UsageError(message, hint=hint)
        if gate.is_locked and gate.is_on is not is_on:
            wanted, locked = str(is_on).lower(), str(gate.is_on).lower()
            message = f"cannot set feature gate {name} to {wanted}, feature is locked to {locked}"
            raise UsageError(message, hint=f"leave {name} out: Kubernetes {release.minor} does not let it be changed")
    changed = structs.replace(release, switched={**release.switched, **gates})
    for name, others in changed.needs.items():
        off = [other for other in others if not changed.is_on(other)]
        if off and changed.is_on(name):
            message = f"{name} is enabled, but depends on features that are disabled: [{' '.join(off)}]"
            raise UsageError(message, hint=f"set {name}=false too: kube-scheduler does not start otherwise")
    return changed


#: Minor -> scheduling gates that are on by default from it on, for minors older than the known ones.
_ON_SINCE: Final[dict[int, tuple[str, ...]]] = {
    26: ("NodeInclusionPolicyInPodTopologySpread",),
    27: ("MatchLabelKeysInPodTopologySpread", "PodSchedulingReadiness"),
    29: ("SidecarContainers",),
    31: ("MatchLabelKeysInPodAffinity",),
    32: ("SchedulerQueueingHints",),
    33: ("InPlacePodVerticalScaling", "SchedulerAsyncPreemption", "SchedulerPopFromBackoffQ"),
}

#: Minor -> what is known to differ in it from the minor before, for minors newer than the known ones.
_KNOWN_TO_DIFFER: Final[dict[int, str]] = {
    38: (
        "the feature gates MatchLabelKeysInPodAffinity, PodSchedulingReadiness and DynamicResourceAllocation are gone, "
        "and an extender may answer a preemption with empty lists of victims"
    )
}


def release_notes(release: Release) -> list[str]:
    """List what to beware of in the answers of a release; empty for one that was compared with its own code."""
    notes, minor = [], release.minor
    if (number := release.stands_for) is not None:
        notes.append(f"1.{number} is decided as {minor}; {_unknown_server(number, release)}")
    if not release.is_compared:
        notes.append(f"the rules of {minor} are those of its release notes, and were not compared with its own code")
    return notes


def _unknown_server(minor: int, release: Release) -> str:
    known = [text for number, text in sorted(_KNOWN_TO_DIFFER.items()) if release.number < number <= minor]
    unknown = f"what v1.{release.number + 1} and later changed is not known here"
    return f"{unknown}, except that {'; '.join(known)}" if known else unknown


def version_note(git_version: str, minor: int | None, release: Release) -> str:
    """Return what may differ on a server whose minor is unknown, or unreadable (None); empty for a known one."""
    decides = f"the server is {git_version}, and kplan decides as kube-scheduler v{release.minor}"
    if minor is None:
        return decides
    if minor == release.number:
        return ""
    nearest = f"{decides}, the nearest that it knows"
    if minor > release.number:
        return f"{nearest}: {_unknown_server(minor, release)}"
    later = range(minor + 1, release.number + 1)
    newer = [f"{gate} (1.{since})" for since in later for gate in _ON_SINCE.get(since, ())]
    return f"{nearest}; these gates count as on, though later versions turned them on: {', '.join(newer)}"
