"""PodTopologySpread, one node and one pod at a time.

`running` lists pods by node name. `change` is what one node has more (`coming`) or fewer (`leaving`) than that.
"""

import math

from tests.oracle import node_affinity, taint_toleration
from tests.oracle.labels import is_empty, is_terminating, labels_of, namespace_of, selects

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


def _has_all_keys(node, constraints):
    return all(each["topologyKey"] in labels_of(node) for each in constraints)


def _count(constraint, pod, pods):
    selector = constraint.get("labelSelector")
    if is_empty(selector):
        return 0
    return sum(
        not is_terminating(each) and namespace_of(each) == namespace_of(pod) and selects(selector, labels_of(each))
        for each in pods
    )


def _is_domain(constraint, pod, node, constraints):
    return _has_all_keys(node, constraints) and _included(constraint, pod, node)


def _domain_counts(constraint, constraints, pod, nodes, running):
    counts = {}
    for node in nodes:
        if _is_domain(constraint, pod, node, constraints):
            domain = labels_of(node)[constraint["topologyKey"]]
            counts[domain] = counts.get(domain, 0) + _count(constraint, pod, running.get(node["metadata"]["name"], []))
    return counts


def _count_changes(constraint, pod, pods):
    selector = constraint.get("labelSelector")
    return sum(namespace_of(each) == namespace_of(pod) and selects(selector, labels_of(each)) for each in pods)


def filter_node(pod, node, nodes, running, *, leaving=(), coming=()):
    constraints = constraints_of(pod, "DoNotSchedule")
    for constraint in constraints:
        domain = labels_of(node).get(constraint["topologyKey"])
        if domain is None:
            return LABEL
        counts = _domain_counts(constraint, constraints, pod, nodes, running)
        if _is_domain(constraint, pod, node, constraints):
            counts[domain] += _count_changes(constraint, pod, coming) - _count_changes(constraint, pod, leaving)
        least = 0 if len(counts) < (constraint.get("minDomains") or 1) else min(counts.values())
        itself = selects(constraint.get("labelSelector"), labels_of(pod))
        if counts.get(domain, 0) + itself - least > constraint["maxSkew"]:
            return SKEW
    return None


def scores(pod, feasible, nodes, running, *, defaults=SYSTEM, default_selector=None, is_system=True):
    """Raw and normalized scores of the feasible nodes, or None when there is nothing to score."""
    constraints = constraints_of(pod, "ScheduleAnyway", defaults, default_selector)
    if not constraints:
        return None
    needs_all = bool(pod["spec"].get("topologySpreadConstraints")) or not is_system
    ignored = [needs_all and not _has_all_keys(each, constraints) for each in feasible]
    taking_part = [each for each, is_ignored in zip(feasible, ignored, strict=True) if not is_ignored]
    raw = []
    for node, is_ignored in zip(feasible, ignored, strict=True):
        total = 0.0
        for constraint in [] if is_ignored else constraints:
            key = constraint["topologyKey"]
            if key not in labels_of(node):
                continue
            domain = labels_of(node)[key]
            if key == "kubernetes.io/hostname":
                size, count = len(taking_part), _count(constraint, pod, running.get(node["metadata"]["name"], []))
            else:
                size = len({labels_of(each).get(key, "") for each in taking_part})
                count = sum(
                    _count(constraint, pod, running.get(each["metadata"]["name"], []))
                    for each in nodes
                    if labels_of(each).get(key, "") == domain
                    and (not needs_all or _has_all_keys(each, constraints))
                    and _included(constraint, pod, each)
                )
            total += float(count) * math.log(size + 2) + float(constraint["maxSkew"] - 1)
        raw.append(math.floor(total + 0.5))
    counted = [each for each, is_ignored in zip(raw, ignored, strict=True) if not is_ignored]
    top, low = max(counted, default=0), min(counted, default=0)
    final = [
        0 if is_ignored else 100 * (top + low - each) // top if top else 100
        for each, is_ignored in zip(raw, ignored, strict=True)
    ]
    return raw, final
