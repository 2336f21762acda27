"""TaintToleration and NodeUnschedulable, one node at a time."""

UNRESOLVABLE = "UnschedulableAndUnresolvable"


def tolerates(toleration, taint):
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    operator = toleration.get("operator") or "Equal"
    return operator == "Exists" or (operator == "Equal" and toleration.get("value", "") == taint.get("value", ""))


def _untolerated(pod, node, effects):
    tolerations = pod["spec"].get("tolerations", [])
    return [
        taint
        for taint in node["spec"].get("taints", [])
        if taint["effect"] in effects and not any(tolerates(each, taint) for each in tolerations)
    ]


def filter_node(pod, node):
    if _untolerated(pod, node, ("NoSchedule", "NoExecute")):
        return (UNRESOLVABLE, ["node(s) had untolerated taint(s)"])
    return None


def score(pod, node):
    return len(_untolerated(pod, node, ("PreferNoSchedule",)))


def normalized(scores):
    top = max(scores)
    return [100 if top == 0 else 100 - 100 * each // top for each in scores]


def filter_unschedulable(pod, node):
    cordon = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    if node["spec"].get("unschedulable") and not any(
        tolerates(each, cordon) for each in pod["spec"].get("tolerations", [])
    ):
        return (UNRESOLVABLE, ["node(s) were unschedulable"])
    return None
