"""Why a plugin rejects a node, in sentences: each detail of a rejection with its numbers and names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, assert_never

from msgspec import UNSET

from kplan.api.quantity import count, grouped, listing, readable
from kplan.documents.placement import Failure, Rejection
from kplan.engine import details as d

_ANY_ADDRESS = ("", "0.0.0.0")  # noqa: S104 - compared, not bound


class DetailsByReason:
    """The details of a failure, grouped once: many reasons may be asked for."""

    def __init__(self, failure: Failure | Rejection) -> None:
        self._by_reason = grouped((detail.reason, detail) for detail in failure.details)

    def of(self, reason: str) -> tuple[d.Detail, ...]:
        """Return the details of a reason, after those that name no reason."""
        return (*self._by_reason.get("", ()), *self._by_reason.get(reason, ()))


def failure_lines(failure: Failure | Rejection, reason: str | None = None) -> list[str]:
    """Return why a plugin rejects a node, a line for each detail; with a reason only its own.

    A reason without details stands for itself.
    """
    lines: list[str] = []
    details = DetailsByReason(failure)
    for text in failure.reasons:
        if reason is not None and text != reason:
            continue
        texts = [detail_text(detail) for detail in details.of(text)]
        lines += [line for line in texts if line] or ([] if reason is not None else [text])
    return list(dict.fromkeys(lines))


def detail_text(detail: d.Detail) -> str:  # noqa: C901, PLR0911, PLR0912 - one case a kind of detail, in one place
    """Return a detail as a sentence without a full stop."""
    match detail:
        case d.InsufficientResource():
            return _resource(detail)
        case d.MissingResource():
            return f"requests {detail.requested} {detail.resource}, the node has none"
        case d.UntoleratedTaint(unschedulable=True):
            return "the node is cordoned"
        case d.UntoleratedTaint():
            return f"taint {detail.taint} is not tolerated"
        case d.UnmatchedNodeSelector():
            key = detail.node_selector.partition("=")[0]
            has = f"no label {key}" if detail.actual is None else f"{key}={detail.actual}"
            return f"nodeSelector requires {detail.node_selector}, the node has {has}"
        case d.UnmatchedNodeAffinity():
            return _node_affinity(detail)
        case d.OtherNodeName():
            return f"the pod's nodeName is {detail.requested}"
        case d.UndeclaredFeature():
            return f"the node does not declare feature {detail.feature}"
        case d.TakenHostPort():
            address = "" if detail.host_ip in _ANY_ADDRESS else f"{detail.host_ip}:"
            holders = listing(detail.pods, detail.and_more or 0)
            return f"host port {address}{detail.host_port}/{detail.protocol} is taken by {holders}"
        case d.SpreadLabelMissing() | d.AffinityLabelMissing():
            return f"the node has no label {detail.missing_label}, which a rule of the pod needs"
        case d.TooMuchSkew():
            return _skew(detail)
        case d.UnmetAffinity():
            from kplan.diagnosis.sentence import where_such_pods_run  # few rejections need its words

            elsewhere = where_such_pods_run(detail)
            return f"no pod with {_terms(detail.terms)} in {detail.topology_key}={detail.domain}; {elsewhere}"
        case d.OwnAntiAffinity():
            return f"anti-affinity excludes {detail.pods_in_domain} ({_terms(detail.terms)})"
        case d.ForeignAntiAffinity():
            return f"anti-affinity of {detail.pods_in_domain} excludes pods with {_terms(detail.terms)}"
        case d.MountedDisk():
            return f"{detail.type} {detail.disk} is mounted by {listing(detail.pods, detail.and_more or 0)}"
        case d.ClaimInUse():
            users = listing(detail.used_by, detail.and_more or 0)
            return f"claim {detail.claim} allows one pod (ReadWriteOncePod), used by {users}"
        case d.OtherVolumeZone():
            where = f"{detail.label}={listing(detail.allowed)}"
            return f"volume {detail.volume} is in {where}, the node in {detail.node or 'none'}"
        case d.TooManyVolumes():
            most = "1 volume" if detail.limit == "1" else f"{detail.limit} volumes"
            use = f"{detail.used} in use, {detail.new} more requested: {detail.short} too many"
            return f"{detail.driver} attaches at most {most} here, {use}"
        case d.MissingDriver():
            return f"CSI driver {detail.driver} is not installed on the node"
        case d.UnreachableVolume():
            where = listing(detail.requires)
            return f"volume {detail.volume} of claim {detail.claim} can only be attached to nodes with {where}"
        case d.LostVolume():
            return f"volume {detail.volume} of claim {detail.claim} does not exist"
        case d.UnboundClaim():
            return _claim(detail)
        case d.MissingDevices():
            wanted = f"{detail.wanted} of {detail.device_class or 'any class'} ({detail.request})"
            words = "device matches" if detail.matching == "1" else "devices match"
            users = f", used by {listing(detail.held_by)}" if detail.held_by else ""
            tainted = f", tainted {listing(detail.tainted)}" if detail.tainted else ""
            free = f"{detail.free} of them free{users}{tainted}"
            return f"claim {detail.claim} requests {wanted}: {detail.matching} {words}, {free}"
        case d.UnavailableClaim():
            only = f"only be used on {detail.where}" if detail.usable_on else "be used on no node"
            return f"the devices of claim {detail.claim} can {only}"
        case d.OtherFacts():
            return ", ".join(f"{_words(name)} {_value(value)}" for name, value in detail.facts.items())
        case _:
            assert_never(detail)


def _resource(detail: d.InsufficientResource) -> str:
    name = detail.resource
    if name == "pods":
        return f"runs {count(int(detail.allocatable), 'pod')} already, the maximum"
    requests, free = f"requests {readable(detail.requested)} {name}", readable(detail.free)
    allocatable, short = readable(detail.allocatable), readable(detail.short)
    if detail.capacity:
        reports = f"it reports {readable(detail.capacity)} but 0 are allocatable"
        return f"{requests}; {reports}: look at the device plugin"
    if detail.allocatable == "0":
        return f"{requests}, the node has none"
    if free.startswith("-"):
        return f"{requests}, all of {allocatable} and {free[1:]} more are in use: {short} short"
    return f"{requests}, {free} of {allocatable} free: {short} short"


def _node_affinity(detail: d.UnmatchedNodeAffinity) -> str:
    # The node's name stands beside the sentence; without it, nodes with the same to say share a line.
    pairs = zip(detail.failed, detail.conditions, strict=False)
    of_names = {failed: condition.condition for failed, condition in pairs if condition.is_name}
    failed = " and ".join(of_names.get(text, text) for text in detail.failed)
    return f"node affinity requires {failed}" if failed else f"node affinity term {detail.term} does not match"


def _skew(detail: d.TooMuchSkew) -> str:
    if detail.min_domains:
        why = f"only {detail.domains} of at least {detail.min_domains} domains exist, so 0 counts as the fewest"
    elif detail.emptiest_domains:
        why = f"the fewest are {detail.minimum} in {listing(detail.emptiest_domains)}"
    else:
        why = f"fewest {detail.minimum}"
    pods = f"{detail.topology_key}={detail.domain} would have {detail.matching_pods + detail.self_match} matching pods"
    return f"{pods}, {why}: skew {detail.skew}, at most {detail.max_skew} allowed"


def _terms(terms: Sequence[d.PodTerm]) -> str:
    texts = []
    for term in terms:
        if isinstance(term.namespace_selector, str):
            where = f"namespaces with {term.namespace_selector or 'any labels'}"
        elif term.namespaces == "all":
            where = "any namespace"
        else:
            where = f"{'namespace' if len(term.namespaces) == 1 else 'namespaces'} {listing(term.namespaces)}"
        texts.append(f"{term.label_selector or 'any labels'} in {where}")
    return texts[0] if len(texts) == 1 else " and ".join(f"({text})" for text in texts)


def _claim(detail: d.UnboundClaim) -> str:
    text = f"claim {detail.claim} ({detail.requested} of class {detail.storage_class or 'none'})"
    if detail.selected_node:
        return f"{text} is assigned to node {detail.selected_node}"
    if detail.largest_volume is not UNSET:
        return f"{text} finds too little storage; the largest volume may have {detail.largest_volume or 'nothing'}"
    parts = []
    if detail.promised_volume:
        parts.append(f"its volume {detail.promised_volume} cannot be used here")
    if detail.volumes_rejected:
        rejected = (f"{number} {_words(why)}" for why, number in detail.volumes_rejected.items())
        parts.append(f"existing volumes: {', '.join(rejected)}")
    if detail.provisions is False:
        parts.append(f"{detail.provisioner or 'no provisioner'} makes no new ones")
    if detail.allowed_topologies:
        parts.append(f"new ones are only made where {' or '.join(detail.allowed_topologies)}")
    return f"{text} finds no volume" + (f" ({'; '.join(parts)})" if parts else "")


def _words(key: str) -> str:
    """Return a field's name as words: ``andMore`` -> ``and more``."""
    return re.sub(r"(?<=[a-z0-9])([A-Z])", lambda capital: f" {capital[1].lower()}", key)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return " ".join(f"{_words(key)} {_value(item)}" for key, item in value.items() if item not in (None, "", []))
    if isinstance(value, Iterable) and not isinstance(value, str):
        return listing([_value(item) for item in value])
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value)
