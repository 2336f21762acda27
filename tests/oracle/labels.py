"""Label selectors, one set of labels at a time; all selectors are valid."""

import re


def selects(selector, labels):
    """None takes nothing, an empty selector everything."""
    if selector is None:
        return False
    wanted = selector.get("matchLabels", {})
    return all(labels.get(key) == value for key, value in wanted.items()) and all(
        holds(each, labels) for each in selector.get("matchExpressions", [])
    )


def is_empty(selector):
    return selector is not None and not selector.get("matchLabels") and not selector.get("matchExpressions")


def holds(expression, labels):
    key, operator, values = expression["key"], expression["operator"], expression.get("values", [])
    if operator in ("In", "NotIn"):
        return (key in labels and labels[key] in values) == (operator == "In")
    if operator in ("Exists", "DoesNotExist"):
        return (key in labels) == (operator == "Exists")
    numbers = [_number(labels.get(key, "")), _number(values[0])]
    if None in numbers:
        return False
    left, right = numbers
    return left > right if operator == "Gt" else left < right


def _number(text):
    if not re.fullmatch(r"[+-]?[0-9]+", text, re.ASCII) or not -(2**63) <= int(text) < 2**63:
        return None
    return int(text)


def labels_of(thing):
    return thing["metadata"].get("labels", {})


def namespace_of(pod):
    return pod["metadata"]["namespace"]


def is_terminating(pod):
    return pod["metadata"].get("deletionTimestamp") is not None
