"""InterPodAffinity, one node and one pod at a time.

`running` lists pods by node name, `namespaces` holds the labels of each namespace by name.
"""

from tests.oracle.labels import labels_of, namespace_of, selects

AFFINITY = ("UnschedulableAndUnresolvable", ["node(s) didn't match pod affinity rules"])
ANTI_AFFINITY = ("Unschedulable", ["node(s) didn't match pod anti-affinity rules"])
EXISTING = ("Unschedulable", ["node(s) didn't satisfy existing pods anti-affinity rules"])

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


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


def _domain(node, key):
    return labels_of(node).get(key)


def filter_node(pod, node, nodes, running, namespaces):
    near = terms_of(pod, "podAffinity", REQUIRED)
    apart = terms_of(pod, "podAntiAffinity", REQUIRED)
    others = [(each, other) for each in nodes for other in running.get(each["metadata"]["name"], [])]

    def together(other_node, key):
        return _domain(node, key) is not None and _domain(node, key) == _domain(other_node, key)

    if any(_domain(node, term["topologyKey"]) is None for term in near):
        return AFFINITY
    meant = [
        (each, other) for each, other in others if all(incoming_means(term, pod, other, namespaces) for term in near)
    ]
    if not all(any(together(each, term["topologyKey"]) for each, _ in meant) for term in near):
        nobody = not any(_domain(each, term["topologyKey"]) is not None for each, _ in meant for term in near)
        if not (nobody and all(incoming_means(term, pod, pod, namespaces) for term in near)):
            return AFFINITY
    for term in apart:
        if any(
            together(each, term["topologyKey"]) and incoming_means(term, pod, other, namespaces)
            for each, other in others
        ):
            return ANTI_AFFINITY
    for each, other in others:
        for term in terms_of(other, "podAntiAffinity", REQUIRED):
            if together(each, term["topologyKey"]) and running_means(term, other, pod, namespaces):
                return EXISTING
    return None


def is_skipped(pod, nodes, running, namespaces):
    if terms_of(pod, "podAffinity", REQUIRED) or terms_of(pod, "podAntiAffinity", REQUIRED):
        return False
    return not any(
        _domain(node, term["topologyKey"]) is not None and running_means(term, other, pod, namespaces)
        for node in nodes
        for other in running.get(node["metadata"]["name"], [])
        for term in terms_of(other, "podAntiAffinity", REQUIRED)
    )


def scores(pod, feasible, nodes, running, namespaces, *, hard_weight=1, ignore_others=False):
    """Raw and normalized scores of the feasible nodes, or None when there is nothing to score."""
    own = [(1, each) for each in terms_of(pod, "podAffinity", PREFERRED)]
    own += [(-1, each) for each in terms_of(pod, "podAntiAffinity", PREFERRED)]
    if ignore_others and not own:
        return None
    votes = []
    for node in nodes:
        for other in running.get(node["metadata"]["name"], []):
            said = [
                (term["podAffinityTerm"], sign * term["weight"])
                for sign, term in own
                if incoming_means(term["podAffinityTerm"], pod, other, namespaces)
            ]
            of_others = [(each, hard_weight) for each in terms_of(other, "podAffinity", REQUIRED) if hard_weight > 0]
            for sign, part in ((1, "podAffinity"), (-1, "podAntiAffinity")):
                of_others += [
                    (each["podAffinityTerm"], sign * each["weight"]) for each in terms_of(other, part, PREFERRED)
                ]
            said += [(term, weight) for term, weight in of_others if running_means(term, other, pod, namespaces)]
            votes += [
                (term["topologyKey"], _domain(node, term["topologyKey"]), weight)
                for term, weight in said
                if _domain(node, term["topologyKey"]) is not None
            ]
    if not votes:
        return None
    raw = [sum(weight for key, domain, weight in votes if _domain(node, key) == domain) for node in feasible]
    low, spread = min(raw), max(raw) - min(raw)
    return raw, [int(100.0 * (float(each - low) / float(spread))) if spread else 0 for each in raw]
