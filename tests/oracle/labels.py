"""Label selectors, one set of labels at a time; all selectors are valid."""


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
    return (key in labels) == (operator == "Exists")


def labels_of(thing):
    return thing["metadata"].get("labels", {})


def namespace_of(pod):
    return pod["metadata"]["namespace"]


def is_terminating(pod):
    return pod["metadata"].get("deletionTimestamp") is not None
