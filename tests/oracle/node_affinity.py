"""NodeAffinity, one node at a time; all selectors are valid."""

import re

UNRESOLVABLE = "UnschedulableAndUnresolvable"


def holds(expression, labels):
    key, operator, values = expression["key"], expression["operator"], expression.get("values", [])
    if operator == "In":
        return key in labels and labels[key] in values
    if operator == "NotIn":
        return key not in labels or labels[key] not in values
    if operator == "Exists":
        return key in labels
    if operator == "DoesNotExist":
        return key not in labels
    numbers = [_number(labels.get(key, "")), _number(values[0])]
    if None in numbers:
        return False
    left, right = numbers
    return left > right if operator == "Gt" else left < right


def _number(text):
    if not re.fullmatch(r"[+-]?[0-9]+", text, re.ASCII) or not -(2**63) <= int(text) < 2**63:
        return None
    return int(text)


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
