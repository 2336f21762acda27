"""Remedies carried out, as one would with kubectl."""

import copy
from typing import Any

from tests.objects import HOSTNAME


def applied(objects: list[dict[str, Any]], remedy: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the cluster with a remedy carried out, as one would with kubectl."""
    changed = copy.deepcopy(objects)
    for part in remedy.get("changes", (remedy,)):
        for change in (part["change"], *part.get("also", ())):
            APPLY[part["kind"]](changed, _named(changed, "Pod", "web"), change)
    return changed


def _named(objects: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    return next(obj for obj in objects if obj["kind"] == kind and obj["metadata"]["name"] == name)


def _lower(_: list[dict[str, Any]], waiting: dict[str, Any], change: dict[str, Any]) -> None:
    containers = [*waiting["spec"]["containers"], *waiting["spec"].get("initContainers", ())]
    (container,) = (candidate for candidate in containers if candidate["name"] == change["container"])
    container["resources"]["requests"][change["resource"]] = change["to"]


def _tolerate(_: list[dict[str, Any]], waiting: dict[str, Any], change: dict[str, Any]) -> None:
    for text in change["taints"]:
        label, _, effect = text.rpartition(":")
        key, _, value = label.partition("=")
        toleration = {"key": key, "operator": "Equal", "value": value, "effect": effect}
        waiting["spec"].setdefault("tolerations", []).append(toleration)


def _select(_: list[dict[str, Any]], waiting: dict[str, Any], change: dict[str, Any]) -> None:
    if change["where"] == "nodeSelector":
        del waiting["spec"]["nodeSelector"][change["from"].partition("=")[0]]
        key, _, value = (change["to"] or "").partition("=")
        if change["to"] is not None:
            waiting["spec"]["nodeSelector"][key] = value
    else:
        required = waiting["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        if change["to"] is None:
            waiting["spec"].pop("affinity")
            return
        key, _, value = change["to"].split(" ")
        required["nodeSelectorTerms"][0]["matchExpressions"] = [{"key": key, "operator": "In", "values": [value]}]


def _uncordon(objects: list[dict[str, Any]], _: dict[str, Any], change: dict[str, Any]) -> None:
    _named(objects, "Node", change["node"])["spec"] = {"taints": []}


def _drop_ports(_: list[dict[str, Any]], waiting: dict[str, Any], change: dict[str, Any]) -> None:
    ports = waiting["spec"]["containers"][0].pop("ports")
    assert change["ports"] == [f"{port['hostPort']}/TCP" for port in ports]


def _repair(objects: list[dict[str, Any]], _: dict[str, Any], change: dict[str, Any]) -> None:
    ill = _named(objects, "Node", change["node"])
    if change.get("hanging"):
        objects[:] = [obj for obj in objects if f"default/{obj['metadata']['name']}" not in change["hanging"]]
        return
    if change["resource"]:
        ill["status"]["allocatable"][change["resource"]] = change["capacity"]
        return
    assert {taint["key"] for taint in ill["spec"]["taints"]} == set(change["taints"])
    ill["spec"] = {"taints": []}


def _wait(objects: list[dict[str, Any]], _: dict[str, Any], change: dict[str, Any]) -> None:
    if change["what"] == "pod":
        objects.remove(_named(objects, "Pod", change["name"].partition("/")[2]))
        return
    fresh = _named(objects, "Node", change["name"])
    fresh["spec"]["taints"] = [one for one in fresh["spec"]["taints"] if one["key"] not in change["because"]]


def _relax(_: list[dict[str, Any]], waiting: dict[str, Any], change: dict[str, Any]) -> None:
    if change["rule"] == "topologySpreadConstraints":
        waiting["spec"]["topologySpreadConstraints"][0]["whenUnsatisfiable"] = "ScheduleAnyway"
    else:
        rules = waiting["spec"]["affinity"][change["rule"]]
        (term,) = rules.pop("requiredDuringSchedulingIgnoredDuringExecution")
        rules["preferredDuringSchedulingIgnoredDuringExecution"] = [{"weight": 100, "podAffinityTerm": term}]


def _move(objects: list[dict[str, Any]], _: dict[str, Any], change: dict[str, Any]) -> None:
    moved = _named(objects, "Pod", change["pod"].partition("/")[2])
    assert moved["spec"]["nodeName"] == change["node"]
    moved["spec"]["nodeName"] = change["goesTo"]


def _add(objects: list[dict[str, Any]], _: dict[str, Any], change: dict[str, Any]) -> None:
    like = _named(objects, "Node", change["like"])
    for number in range(change["nodes"]):
        added = copy.deepcopy(like)
        added["metadata"]["name"] = added["metadata"]["labels"][HOSTNAME] = f"{change['like']}-added-{number + 1}"
        for key, _, value in (label.partition("=") for label in change.get("labels", ())):
            added["metadata"]["labels"][key] = value or "new"
        for resource, _, amount in (text.partition("=") for text in change.get("room", ())):
            added["status"]["allocatable"] = {**added["status"]["allocatable"], resource: amount}
        objects.append(added)


def _raise(objects: list[dict[str, Any]], waiting: dict[str, Any], change: dict[str, Any]) -> None:
    waiting["spec"]["priority"] = change["to"]
    for key in change["evicts"]:
        objects.remove(_named(objects, "Pod", key.partition("/")[2]))


def _ungate(_: list[dict[str, Any]], waiting: dict[str, Any], change: dict[str, Any]) -> None:
    gates = waiting["spec"].pop("schedulingGates")
    assert [gate["name"] for gate in gates] == change["gates"]


def _taint(text: str) -> tuple[str, str, str]:
    label, _, effect = text.partition(":")
    key, _, value = label.partition("=")
    return key, value, effect


def _term(waiting: dict[str, Any]) -> dict[str, Any]:
    (term,) = waiting["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return term


def _search(_: list[dict[str, Any]], waiting: dict[str, Any], change: dict[str, Any]) -> None:
    term = _term(waiting)
    assert term["topologyKey"] == change["topologyKey"]
    term["namespaces"] = [*term.get("namespaces", ()), change["namespace"]]


def _honor(_: list[dict[str, Any]], waiting: dict[str, Any], change: dict[str, Any]) -> None:
    (constraint,) = waiting["spec"]["topologySpreadConstraints"]
    constraint[change["policy"]] = "Honor"


def _rename(objects: list[dict[str, Any]], waiting: dict[str, Any], change: dict[str, Any]) -> None:
    if change["what"] == "scheduler":
        waiting["spec"]["schedulerName"] = change["to"]
    elif change["what"] == "resource":
        requests = waiting["spec"]["containers"][0]["resources"]["requests"]
        requests[change["to"]] = requests.pop(change["from"])
    elif change["what"] == "label":
        key, _, value = change["to"].partition("=")
        labels = _term(waiting)["labelSelector"]["matchLabels"]
        del labels[change["from"].partition("=")[0]]
        labels[key] = value
    elif change["what"] == "toleration":
        key, value, effect = _taint(change["to"])
        (toleration,) = (one for one in waiting["spec"]["tolerations"] if one["key"] == _taint(change["from"])[0])
        toleration |= {"key": key, "effect": effect} | ({"value": value} if value else {})
    elif change["what"] == "topologyKey":
        (rule,) = waiting["spec"].get(change["of"]) or [_term(waiting)]
        rule["topologyKey"] = change["to"]
    elif change["what"] == "PersistentVolumeClaim":
        waiting["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] = change["to"]
    else:
        of = change["of"].split("/")[1]
        _named(objects, "PersistentVolumeClaim", of)["spec"]["storageClassName"] = change["to"]


def _recreate(objects: list[dict[str, Any]], _: dict[str, Any], change: dict[str, Any]) -> None:
    assert change["to"] == "strategy type Recreate"
    objects.remove(_named(objects, "Pod", "old"))


APPLY = {
    "allow-unavailable": _recreate,
    "lower-request": _lower,
    "tolerate-taint": _tolerate,
    "correct-selector": _select,
    "correct-name": _rename,
    "uncordon": _uncordon,
    "repair-node": _repair,
    "wait": _wait,
    "relax": _relax,
    "move-pod": _move,
    "add-nodes": _add,
    "raise-priority": _raise,
    "remove-gates": _ungate,
    "search-namespace": _search,
    "honor-policy": _honor,
    "drop-host-ports": _drop_ports,
}
