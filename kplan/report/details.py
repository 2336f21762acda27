"""The numbers and names behind a reason, written as one sentence.

Which sentence fits is seen from the fields of a detail, so that a plugin's details need no entry here to be readable:
what no sentence fits is listed field by field.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kplan.documents.placement import Failure, Rejection
from kplan.report.words import count, readable

__all__ = ["detail_text", "failure_lines", "listing"]

Detail = Mapping[str, Any]
_MOST_NAMES = 3
_OWN_NAME = re.compile(r"^(metadata\.name!?=\S+) \(is \S+\)$")


def failure_lines(failure: Failure | Rejection, reason: str | None = None) -> list[str]:
    """Write what a plugin holds against a node, a line each; only what belongs to one of its reasons, if one is given.

    A reason without details stands for itself.
    """
    lines: list[str] = []
    for text in failure.reasons:
        if reason is not None and text != reason:
            continue
        told = [detail_text(detail) for detail in failure.details if detail.get("reason", text) == text]
        lines += [line for line in told if line] or ([] if reason is not None else [text])
    return list(dict.fromkeys(lines))


def detail_text(detail: Detail) -> str:
    """Write one detail as a sentence without a full stop."""
    for fields, write in _SENTENCES:
        if fields <= detail.keys():
            return write(detail)
    return ", ".join(f"{_words(key)} {_value(value)}" for key, value in detail.items() if key != "reason")


def listing(names: Sequence[str], and_more: int = 0, most: int = _MOST_NAMES) -> str:
    """Join names by commas: the first few, and how many are left out."""
    shown = list(names[:most])
    left_out = and_more + len(names) - len(shown)
    return ", ".join(shown) + (f" and {left_out} more" if left_out else "")


def _resource(detail: Detail) -> str:
    name = detail["resource"]
    if name == "pods":
        return f"runs {detail['allocatable']} pods already, as many as it may"
    requested, free, allocatable, short = (
        readable(detail[field]) for field in ("requested", "free", "allocatable", "short")
    )
    if detail["allocatable"] == "0":
        return f"asks for {requested} {name}, the node has none"
    if free.startswith("-"):
        return f"asks for {requested} {name}, all of {allocatable} and {free[1:]} more are taken: {short} short"
    return f"asks for {requested} {name}, {free} of {allocatable} free: {short} short"


def _taint(detail: Detail) -> str:
    if detail.get("unschedulable"):
        return "the node is cordoned (kubectl cordon)"
    return f"taint {detail['taint']} is not tolerated"


def _node_selector(detail: Detail) -> str:
    actual = detail["actual"]
    key = str(detail["nodeSelector"]).partition("=")[0]
    has = f"no label {key}" if actual is None else f"{key}={actual}"
    return f"nodeSelector wants {detail['nodeSelector']}, the node has {has}"


def _term(detail: Detail) -> str:
    # The node's name stands beside the sentence; without it, nodes with the same to say share a line.
    failed = " and ".join(_OWN_NAME.sub(r"\1", text) for text in detail["failed"])
    return f"node affinity wants {failed}" if failed else f"node affinity term {detail['term']} does not match"


def _host_port(detail: Detail) -> str:
    address = "" if detail["hostIP"] in ("", "0.0.0.0") else f"{detail['hostIP']}:"  # noqa: S104 - compared, not bound
    holders = listing(detail["pods"], detail.get("andMore", 0))
    return f"host port {address}{detail['hostPort']}/{detail['protocol']} is taken by {holders}"


def _missing_label(detail: Detail) -> str:
    return f"the node has no label {detail['missingLabel']}, which the pod's rule goes by"


def _skew(detail: Detail) -> str:
    key, domain = detail["topologyKey"], detail["domain"]
    with_pod = detail["matchingPods"] + detail["selfMatch"]
    if "minDomains" in detail:
        why = f"only {detail['domains']} of at least {detail['minDomains']} domains exist, so 0 counts as the fewest"
    else:
        others = detail["emptiestDomains"]
        why = f"the fewest are {detail['minimum']} in {listing(others)}" if others else f"fewest {detail['minimum']}"
    return (
        f"{key}={domain} would have {with_pod} matching pods, {why}: skew {detail['skew']}, at most "
        f"{detail['maxSkew']} allowed"
    )


def _affinity(detail: Detail) -> str:
    where = f"{detail['topologyKey']}={detail['domain']}"
    there = detail["domainsWithMatchingPods"]
    found = f"; such pods run in {listing(there, detail.get('andMore', 0))}" if there else "; no such pod runs anywhere"
    return f"no pod with {_terms(detail)} in {where}{found}"


def _anti_affinity(detail: Detail) -> str:
    where = f"{detail['topologyKey']}={detail['domain']}"
    pods = listing(detail["pods"], detail.get("andMore", 0))
    is_theirs = str(detail.get("reason", "")).startswith("node(s) didn't satisfy existing pods")
    verb = "keeps away from" if is_theirs else "keeps away"
    who = f"{pods} in {where}"
    return f"{who} {verb} pods with {_terms(detail)}" if is_theirs else f"must stay apart from {who} ({_terms(detail)})"


def _terms(detail: Detail) -> str:
    texts = [_pods_of_term(term) for term in detail["terms"]]
    return texts[0] if len(texts) == 1 else " and ".join(f"({text})" for text in texts)


def _pods_of_term(term: Mapping[str, Any]) -> str:
    text = str(term["labelSelector"]) or "any labels"
    if term.get("namespaceSelector") is not None:
        return f"{text} in namespaces with {term['namespaceSelector'] or 'any labels'}"
    namespaces = term["namespaces"]
    if namespaces == "all":
        return f"{text} in any namespace"
    return f"{text} in {'namespace' if len(namespaces) == 1 else 'namespaces'} {listing(namespaces)}"


def _disk(detail: Detail) -> str:
    return f"{detail['type']} {detail['disk']} is mounted by {listing(detail['pods'], detail.get('andMore', 0))}"


def _used_claim(detail: Detail) -> str:
    users = listing(detail["usedBy"], detail.get("andMore", 0))
    return f"claim {detail['claim']} allows one pod (ReadWriteOncePod), used by {users}"


def _volume_zone(detail: Detail) -> str:
    has = detail["node"] or "none"
    return f"volume {detail['volume']} is in {detail['label']}={listing(detail['allowed'])}, the node in {has}"


def _volume_limit(detail: Detail) -> str:
    return (
        f"{detail['driver']} attaches at most {count(int(detail['limit']), 'volume')} here, {detail['used']} in use, "
        f"{detail['new']} more asked for: {detail['short']} too many"
    )


def _volume_affinity(detail: Detail) -> str:
    return f"volume {detail['volume']} of claim {detail['claim']} is only reached from {listing(detail['requires'])}"


def _lost_volume(detail: Detail) -> str:
    return f"volume {detail['volume']} of claim {detail['claim']} does not exist"


def _devices(detail: Detail) -> str:
    return (
        f"claim {detail['claim']} asks for {detail['wanted']} of {detail['deviceClass'] or 'any class'} "
        f"({detail['request']}): {detail['matching']} devices match, {detail['free']} of them free"
    )


def _claim(detail: Detail) -> str:
    text = f"claim {detail['claim']} ({detail['requested']} of class {detail['storageClass'] or 'none'})"
    if "selectedNode" in detail:
        return f"{text} was promised to node {detail['selectedNode']}"
    if "largestVolume" in detail:
        return f"{text} finds too little storage; the largest volume may have {detail['largestVolume'] or 'nothing'}"
    parts = []
    if "promisedVolume" in detail:
        parts.append(f"its volume {detail['promisedVolume']} cannot be used here")
    rejected = detail.get("volumesRejected") or {}
    if rejected:
        parts.append("existing volumes: " + ", ".join(f"{number} {_words(why)}" for why, number in rejected.items()))
    if "provisions" in detail:
        parts.append(f"{detail['provisioner'] or 'no provisioner'} makes no new ones")
    if "allowedTopologies" in detail:
        parts.append(f"new ones are only made where {' or '.join(detail['allowedTopologies'])}")
    return f"{text} finds no volume" + (f" ({'; '.join(parts)})" if parts else "")


def _node_name(detail: Detail) -> str:
    return f"the pod asks for node {detail['requested']}"


def _feature(detail: Detail) -> str:
    return f"the node does not declare feature {detail['feature']}"


_SENTENCES: tuple[tuple[frozenset[str], Callable[[Detail], str]], ...] = (
    (frozenset({"resource", "requested", "free", "allocatable", "short"}), _resource),
    (frozenset({"taint"}), _taint),
    (frozenset({"nodeSelector", "actual"}), _node_selector),
    (frozenset({"term", "failed"}), _term),
    (frozenset({"hostPort", "protocol", "hostIP", "pods"}), _host_port),
    (frozenset({"missingLabel"}), _missing_label),
    (frozenset({"topologyKey", "domain", "skew", "maxSkew", "matchingPods", "selfMatch", "minimum", "domains"}), _skew),
    (frozenset({"topologyKey", "domain", "domainsWithMatchingPods", "terms"}), _affinity),
    (frozenset({"topologyKey", "domain", "pods", "terms"}), _anti_affinity),
    (frozenset({"type", "disk", "pods"}), _disk),
    (frozenset({"claim", "usedBy"}), _used_claim),
    (frozenset({"volume", "label", "allowed", "node"}), _volume_zone),
    (frozenset({"driver", "limit", "used", "new", "short"}), _volume_limit),
    (frozenset({"claim", "volume", "requires"}), _volume_affinity),
    (frozenset({"claim", "request", "deviceClass", "wanted", "matching", "free"}), _devices),
    (frozenset({"claim", "storageClass", "requested"}), _claim),
    (frozenset({"claim", "volume"}), _lost_volume),
    (frozenset({"requested", "node"}), _node_name),
    (frozenset({"feature"}), _feature),
    (frozenset({"resource", "requested"}), lambda detail: f"asks for {detail['requested']} {detail['resource']}"),
)
"""Fields that a detail has -> the sentence for it; the first that fits is taken."""


def _words(key: str) -> str:
    """Turn a field's name into words: ``andMore`` -> ``and more``."""
    return re.sub(r"(?<=[a-z0-9])([A-Z])", lambda found: f" {found[1].lower()}", key)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return " ".join(f"{_words(key)} {_value(item)}" for key, item in value.items() if item not in (None, "", []))
    if isinstance(value, Iterable) and not isinstance(value, str):
        return listing([_value(item) for item in value])
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value)
