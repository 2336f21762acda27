"""Constraints of PodTopologySpread, one node and one pod at a time."""

from tests.oracle import node_affinity, taint_toleration
from tests.oracle.labels import is_empty, labels_of

SKEW = ("Unschedulable", ["node(s) didn't match pod topology spread constraints"])
LABEL = (
    "UnschedulableAndUnresolvable",
    ["node(s) didn't match pod topology spread constraints (missing required label)"],
)

SYSTEM = [
    {"topologyKey": "kubernetes.io/hostname", "maxSkew": 3, "whenUnsatisfiable": "ScheduleAnyway"},
    {"topologyKey": "topology.kubernetes.io/zone", "maxSkew": 5, "whenUnsatisfiable": "ScheduleAnyway"},
]


def constraints_of(pod, action, defaults=SYSTEM, default_selector=None):
    own = pod["spec"].get("topologySpreadConstraints", [])
    if own:
        return [_with_label_keys(each, pod) for each in own if each["whenUnsatisfiable"] == action]
    if default_selector is None or is_empty(default_selector):
        return []
    return [{**each, "labelSelector": default_selector} for each in defaults if each["whenUnsatisfiable"] == action]


def _with_label_keys(constraint, pod):
    selector = constraint.get("labelSelector")
    keys = [key for key in constraint.get("matchLabelKeys", []) if key in labels_of(pod)]
    if selector is None or not keys:
        return constraint
    extra = [{"key": key, "operator": "In", "values": [labels_of(pod)[key]]} for key in keys]
    expressions = [*selector.get("matchExpressions", []), *extra]
    return {**constraint, "labelSelector": {**selector, "matchExpressions": expressions}}


def _included(constraint, pod, node):
    if (constraint.get("nodeAffinityPolicy") or "Honor") == "Honor" and node_affinity.filter_node(pod, node):
        return False
    return constraint.get("nodeTaintsPolicy") != "Honor" or not taint_toleration.filter_node(pod, node)
