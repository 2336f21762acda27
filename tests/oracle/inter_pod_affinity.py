"""Terms of InterPodAffinity, one pod at a time; `namespaces` holds the labels of each namespace by name."""

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
