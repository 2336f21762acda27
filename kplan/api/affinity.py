"""Affinity, topology spread constraints and node selectors as in objects (core/v1)."""

from kplan.api.base import Int32, KubeStruct
from kplan.api.meta import LabelSelector


class NodeSelectorRequirement(KubeStruct, frozen=True):
    """One expression over a node's labels or fields; `operator` is In, NotIn, Exists, DoesNotExist, Gt or Lt."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class NodeSelectorTerm(KubeStruct, frozen=True):
    """Expressions that all must hold; a term without any matches nothing."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(KubeStruct, frozen=True):
    """Terms of which at least one must hold."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredSchedulingTerm(KubeStruct, frozen=True):
    """A term that adds its weight, 1 to 100, to the score of nodes where it holds."""

    weight: Int32 = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(KubeStruct, frozen=True):
    """The nodes that a pod requires or prefers."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredSchedulingTerm, ...] = ()


class PodAffinityTerm(KubeStruct, frozen=True):
    """Pods of some namespaces, and the topology key whose domains count as the same place."""

    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    topology_key: str = ""
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(KubeStruct, frozen=True):
    """A term that adds its weight, 1 to 100, for every pod that it matches."""

    weight: Int32 = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(KubeStruct, frozen=True):
    """The pods near which a pod must, or preferably should, run."""

    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()


class PodAntiAffinity(PodAffinity, frozen=True):
    """The pods near which a pod must not, or preferably should not, run."""


class Affinity(KubeStruct, frozen=True):
    """All affinity of a pod."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAntiAffinity | None = None


def required_node_affinity(affinity: Affinity | None) -> NodeSelector | None:
    """Return the node selector that a pod's affinity requires; None for none."""
    node_affinity = None if affinity is None else affinity.node_affinity
    return None if node_affinity is None else node_affinity.required_during_scheduling_ignored_during_execution


class TopologySpreadConstraint(KubeStruct, frozen=True):
    """How evenly matching pods must spread over the domains of a topology key."""

    max_skew: Int32 = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()


class VolumeNodeAffinity(KubeStruct, frozen=True):
    """The nodes from which a volume can be reached."""

    required: NodeSelector | None = None


class TopologySelectorLabelRequirement(KubeStruct, frozen=True):
    """A label key with the values that are allowed."""

    key: str = ""
    values: tuple[str, ...] = ()


class TopologySelectorTerm(KubeStruct, frozen=True):
    """Label requirements that all must hold; a StorageClass's ``allowedTopologies`` is a list of such terms."""

    match_label_expressions: tuple[TopologySelectorLabelRequirement, ...] = ()
