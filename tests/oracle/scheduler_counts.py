"""Inter-pod affinity and topology spread, with counts that follow pods as they come and go."""

import math

from tests.oracle.labels import is_empty, is_terminating, labels_of, namespace_of, selects

HOSTNAME = "kubernetes.io/hostname"
AFFINITY = ("UnschedulableAndUnresolvable", ["node(s) didn't match pod affinity rules"])
ANTI_AFFINITY = ("Unschedulable", ["node(s) didn't match pod anti-affinity rules"])
EXISTING = ("Unschedulable", ["node(s) didn't satisfy existing pods anti-affinity rules"])

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
SKEW = ("Unschedulable", ["node(s) didn't match pod topology spread constraints"])
LABEL = (
    "UnschedulableAndUnresolvable",
    ["node(s) didn't match pod topology spread constraints (missing required label)"],
)

SYSTEM = [
    {"topologyKey": "kubernetes.io/hostname", "maxSkew": 3, "whenUnsatisfiable": "ScheduleAnyway"},
    {"topologyKey": "topology.kubernetes.io/zone", "maxSkew": 5, "whenUnsatisfiable": "ScheduleAnyway"},
]


def terms_of(pod, part, kind):
    return ((pod["spec"].get("affinity") or {}).get(part) or {}).get(kind, [])


def _means(term, owner, pod, namespace_labels, extra_namespaces=()):
    if term.get("namespaces") or term.get("namespaceSelector") is not None:
        named = {*term.get("namespaces", []), *extra_namespaces}
    else:
        named = {namespace_of(owner), *extra_namespaces}
    in_scope = namespace_of(pod) in named or selects(term.get("namespaceSelector"), namespace_labels)
    return in_scope and selects(term.get("labelSelector"), labels_of(pod))


def incoming_means(term, owner, pod, namespaces):
    """A term of the incoming pod: its namespace selector names namespaces, and is then asked about no labels at all."""
    selector = term.get("namespaceSelector")
    named = [name for name, labels in namespaces.items() if selects(selector, labels)]
    return _means(term, owner, pod, {}, named)


def running_means(term, owner, pod, namespaces):
    return _means(term, owner, pod, namespaces.get(namespace_of(pod), {}))


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
    """Here pods select nodes by labels alone, and tolerate all taints of a key."""
    tolerated = {each["key"] for each in pod["spec"].get("tolerations", [])}
    wanted = pod["spec"].get("nodeSelector", {})
    is_selected = wanted.items() <= labels_of(node).items() or constraint.get("nodeAffinityPolicy") == "Ignore"
    is_tolerated = all(taint["key"] in tolerated for taint in node["spec"]["taints"])
    return is_selected and (is_tolerated or constraint.get("nodeTaintsPolicy") != "Honor")


class Counts:
    """What counting tables share; `world` is the cluster that they counted, and the tables are copied with `copy`."""

    def after(self, row, changes):
        """Ask about one node, by its place, after (pod, -1 or 1) left or came there."""
        twin, info = self.copy(), list(self.world.nodes.values())[row]
        for pod, by in changes:
            twin.change(pod, info, by)
        return twin.filter(info)


class AffinityCounts(Counts):
    """How many pods stand for or against the incoming pod, by topology pair."""

    def __init__(self, pod, world):
        self.pod, self.world, self.namespaces = pod, world, world.namespaces
        self.near, self.apart = terms_of(pod, "podAffinity", REQUIRED), terms_of(pod, "podAntiAffinity", REQUIRED)
        self.near_counts, self.apart_counts, self.existing = {}, {}, {}
        for info in world.nodes.values():
            for other in info.pods:
                self.change(other, info, 1)

    @property
    def is_skipped(self):
        return not (self.existing or self.near or self.apart)

    def copy(self):
        twin = object.__new__(AffinityCounts)
        kept = {name: getattr(self, name).copy() for name in ("near_counts", "apart_counts", "existing")}
        twin.__dict__.update(self.__dict__, **kept)
        return twin

    def change(self, other, info, by):
        for term in terms_of(other, "podAntiAffinity", REQUIRED):
            if running_means(term, other, self.pod, self.namespaces):
                _count(self.existing, info, term["topologyKey"], by)
        if self.near and self._is_meant(other):
            for term in self.near:
                _count(self.near_counts, info, term["topologyKey"], by)
        for term in self.apart:
            if incoming_means(term, self.pod, other, self.namespaces):
                _count(self.apart_counts, info, term["topologyKey"], by)

    def _is_meant(self, other):
        return all(incoming_means(term, self.pod, other, self.namespaces) for term in self.near)

    def filter(self, info):
        pairs = [(term["topologyKey"], info.labels.get(term["topologyKey"])) for term in self.near]
        if any(value is None for _, value in pairs):
            return AFFINITY
        if any(self.near_counts.get(pair, 0) <= 0 for pair in pairs) and (
            self.near_counts or not self._is_meant(self.pod)
        ):
            return AFFINITY
        keys = [term["topologyKey"] for term in self.apart]
        if any(key in info.labels and self.apart_counts.get((key, info.labels[key]), 0) > 0 for key in keys):
            return ANTI_AFFINITY
        return EXISTING if any(self.existing.get(pair, 0) > 0 for pair in info.labels.items()) else None


def _count(counts, info, key, by):
    if key in info.labels:
        pair = (key, info.labels[key])
        counts[pair] = counts.get(pair, 0) + by
        if counts[pair] == 0:
            del counts[pair]


def affinity_scores(pod, feasible, world, args):
    """Raw and normalized scores, or None when there is nothing to score."""
    own = _preferences(pod)
    if args.get("ignorePreferredTermsOfExistingPods") and not own:
        return None
    hard, names = args.get("hardPodAffinityWeight", 1), world.namespaces
    weights = {}

    for info in world.nodes.values():
        for other in info.pods:
            said = [(term, by) for term, by in own if incoming_means(term, pod, other, names)]
            of_other = [(term, hard) for term in terms_of(other, "podAffinity", REQUIRED) if hard > 0]
            said += [
                (term, by) for term, by in (*of_other, *_preferences(other)) if running_means(term, other, pod, names)
            ]
            for term, by in said:
                if term["topologyKey"] in info.labels:
                    pair = (term["topologyKey"], info.labels[term["topologyKey"]])
                    weights[pair] = weights.get(pair, 0) + by
    if not weights:
        return None
    raw = [sum(weights.get(pair, 0) for pair in info.labels.items()) for info in feasible]
    low, width = min(raw), max(raw) - min(raw)
    return raw, [int(100.0 * (float(each - low) / float(width))) if width else 0 for each in raw]


def _preferences(pod):
    """Preferred terms with their weights, negative for what is to be kept apart."""
    signs = {"podAffinity": 1, "podAntiAffinity": -1}
    return [
        (each["podAffinityTerm"], sign * each["weight"])
        for part, sign in signs.items()
        for each in terms_of(pod, part, PREFERRED)
    ]


def default_selector(pod, world):
    """What services and the pod's own controller select it by, all together."""
    namespace, labels = namespace_of(pod), labels_of(pod)
    equal = {}
    for service in world.services:
        wanted = service["spec"].get("selector")
        is_near = namespace_of(service) == namespace and wanted is not None
        if is_near and all(labels.get(key) == value for key, value in wanted.items()):
            equal.update(wanted)
    owner = next((each for each in pod["metadata"].get("ownerReferences", []) if each.get("controller")), None)
    more = None
    kinds = {
        ("v1", "ReplicationController"): world.controllers,
        ("apps/v1", "ReplicaSet"): world.replica_sets,
        ("apps/v1", "StatefulSet"): world.stateful_sets,
    }
    if owner is not None:
        for each in kinds.get((owner["apiVersion"], owner["kind"]), []):
            if namespace_of(each) == namespace and each["metadata"]["name"] == owner["name"]:
                if owner["kind"] == "ReplicationController":
                    equal.update(each["spec"].get("selector") or {})
                else:
                    more = each["spec"].get("selector") or {}
    conditions = [{"key": key, "operator": "In", "values": [value]} for key, value in equal.items()]
    if more is not None:
        conditions += [
            {"key": key, "operator": "In", "values": [value]} for key, value in more.get("matchLabels", {}).items()
        ]
        conditions += more.get("matchExpressions", [])
    return {"matchExpressions": conditions}


def _constraints(pod, world, action, args):
    defaults = args.get("defaultConstraints", []) if args.get("defaultingType") == "List" else SYSTEM
    return constraints_of(pod, action, defaults, default_selector(pod, world))


def _n_matching(constraint, pod, pods):
    selector = constraint.get("labelSelector")
    if is_empty(selector):
        return 0
    return sum(
        not is_terminating(each) and namespace_of(each) == namespace_of(pod) and selects(selector, labels_of(each))
        for each in pods
    )


class SpreadCounts(Counts):
    """Matching pods by domain, one table a hard constraint."""

    def __init__(self, pod, world, args):
        self.pod, self.world = pod, world
        self.constraints = _constraints(pod, world, "DoNotSchedule", args)
        self.tables = [{} for _ in self.constraints]
        for info in world.nodes.values():
            for constraint, table in self._taking_part(info):
                domain = info.labels[constraint["topologyKey"]]
                table[domain] = table.get(domain, 0) + _n_matching(constraint, pod, info.pods)

    @property
    def is_skipped(self):
        return not self.constraints

    def copy(self):
        twin = object.__new__(SpreadCounts)
        twin.__dict__.update(self.__dict__, tables=[table.copy() for table in self.tables])
        return twin

    def _taking_part(self, info):
        if any(each["topologyKey"] not in info.labels for each in self.constraints):
            return []
        pairs = zip(self.constraints, self.tables, strict=True)
        return [(each, table) for each, table in pairs if _included(each, self.pod, info.node)]

    def change(self, other, info, by):
        """A pod counts here even while it is terminating, and for a selector that is empty."""
        if namespace_of(other) != namespace_of(self.pod):
            return
        for constraint, table in self._taking_part(info):
            if selects(constraint.get("labelSelector"), labels_of(other)):
                domain = info.labels[constraint["topologyKey"]]
                table[domain] = table.get(domain, 0) + by

    def filter(self, info):
        for constraint, table in zip(self.constraints, self.tables, strict=True):
            domain = info.labels.get(constraint["topologyKey"])
            if domain is None:
                return LABEL
            least = min(table.values()) if len(table) >= (constraint.get("minDomains") or 1) else 0
            itself = selects(constraint.get("labelSelector"), labels_of(self.pod))
            if table.get(domain, 0) + itself - least > constraint["maxSkew"]:
                return SKEW
        return None


def spread_scores(pod, feasible, world, args):
    """Raw and normalized scores, or None when there is nothing to score."""
    constraints = _constraints(pod, world, "ScheduleAnyway", args)
    if not constraints:
        return None
    needs_all = bool(pod["spec"].get("topologySpreadConstraints")) or args.get("defaultingType") == "List"

    def is_ignored(info):
        return needs_all and any(each["topologyKey"] not in info.labels for each in constraints)

    counted = [info for info in feasible if not is_ignored(info)]
    tables, weights = [], []
    for constraint in constraints:
        key = constraint["topologyKey"]
        table = {} if key == HOSTNAME else {info.labels.get(key, ""): 0 for info in counted}
        weights.append(math.log((len(counted) if key == HOSTNAME else len(table)) + 2))
        for info in world.nodes.values():
            if info.labels.get(key, "") in table and not is_ignored(info) and _included(constraint, pod, info.node):
                table[info.labels.get(key, "")] += _n_matching(constraint, pod, info.pods)
        tables.append(table)

    def raw(info):
        total = 0.0
        for constraint, table, weight in zip(constraints, tables, weights, strict=True):
            key = constraint["topologyKey"]
            if key in info.labels:
                n = _n_matching(constraint, pod, info.pods) if key == HOSTNAME else table[info.labels[key]]
                total += float(n) * weight + float(constraint["maxSkew"] - 1)
        return math.floor(total + 0.5)

    scores = {info.name: raw(info) for info in counted}
    top, low = max([0, *scores.values()]), min(scores.values(), default=0)
    final = [
        0 if info.name not in scores else 100 * (top + low - scores[info.name]) // top if top else 100
        for info in feasible
    ]
    return [scores.get(info.name, 0) for info in feasible], final
