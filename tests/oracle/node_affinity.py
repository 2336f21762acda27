"""NodeAffinity, one node at a time; all selectors are valid."""

from tests.oracle.labels import holds

UNRESOLVABLE = "UnschedulableAndUnresolvable"


def term_holds(term, node):
    expressions, fields = term.get("matchExpressions", []), term.get("matchFields", [])
    if not expressions and not fields:
        return False
    labels = node["metadata"].get("labels", {})
    name = {"metadata.name": node["metadata"]["name"]}
    return all(holds(each, labels) for each in expressions) and all(holds(each, name) for each in fields)


def _affinity(pod):
    return (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}


def filter_node(pod, node, added=None):
    if added is not None and not any(term_holds(each, node) for each in added["nodeSelectorTerms"]):
        return (UNRESOLVABLE, ["node(s) didn't match scheduler-enforced node affinity"])
    labels = node["metadata"].get("labels", {})
    wanted = all(labels.get(key) == value for key, value in pod["spec"].get("nodeSelector", {}).items())
    required = _affinity(pod).get("requiredDuringSchedulingIgnoredDuringExecution")
    if wanted and required is not None:
        wanted = any(term_holds(each, node) for each in required["nodeSelectorTerms"])
    return None if wanted else (UNRESOLVABLE, ["node(s) didn't match Pod's node affinity/selector"])


def score(pod, node, added=()):
    preferred = _affinity(pod).get("preferredDuringSchedulingIgnoredDuringExecution", [])
    return sum(each["weight"] for each in (*added, *preferred) if term_holds(each["preference"], node))


def normalized(scores):
    top = max(scores)
    return [100 * each // top if top else each for each in scores]
