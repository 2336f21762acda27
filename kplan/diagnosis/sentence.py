"""Write the causes why a pod has no node as one sentence; no other module does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from kplan.api.labels import HOSTNAME
from kplan.api.quantity import clause, count, grouped, listing, readable
from kplan.changes.remedy_words import NODE_STATES
from kplan.diagnosis import causes as c
from kplan.diagnosis.intended import key_of_taint
from kplan.engine import details as d
from kplan.health.nodes import UnusableResource, is_startup_taint
from kplan.health.words import raises_text
from kplan.rules.resources import PODS
from kplan.rules.volumes import NO_PROVISIONER

_MOST_NAMES = 3
_MOST_GROUPS = 5


def sentence(causes: c.Causes) -> str:
    """Write the causes as one sentence, the strongest first."""
    if causes.whole:
        first, *others = (_whole(cause, causes.surplus) for cause in causes.whole[:_MOST_NAMES])
        text = "; ".join((first, *map(clause, others)))
    else:
        text = _groups(causes)
    return " ".join([f"{text}.", *_unusable(causes.unusable)])


def _unusable(nodes: Sequence[tuple[str, UnusableResource]]) -> list[str]:
    """Write which nodes have what the pod requests, and can give none of it."""
    return [
        f"{listing(names)} {'reports' if len(names) == 1 else 'report'} {devices.text}: look at the device plugin."
        for devices, names in grouped((devices, name) for name, devices in nodes).items()
    ]


def _whole(  # noqa: C901, PLR0911, PLR0912 - one case a cause, in one place
    cause: c.Whole, surplus: Mapping[str, c.Surplus]
) -> str:
    match cause:
        case c.Refused(lacks=lacks) if lacks is not None:
            missing = f"there is no {lacks.kind} {lacks.name}{_suggestion(lacks.nearest)}"
            return f"The API server refuses the pod: {missing}"
        case c.Refused(uses=uses) if uses:
            amounts = []
            for use in uses:
                used, hard, more = map(readable, (use.used, use.hard, use.requested))
                amounts.append(f"{use.resource} {used} of {hard} used, {more} more requested")
            raised = f"; {raises_text(cause.raises)}" if cause.raises else ""
            return f"{cause.by} refuses the pod: {listing(amounts)}{raised}"
        case c.Refused():
            return f"{cause.by or 'The API server'} refuses the pod: {_clause(cause.message)}"
        case c.MissingNamespace():
            return f"The API server refuses the pod: there is no namespace {cause.name}{_suggestion(cause.nearest)}"
        case c.Gated():
            gates, are = ("scheduling gate", "is") if len(cause.gates) == 1 else ("scheduling gates", "are")
            return f"The scheduler ignores it until its {gates} {listing(cause.gates)} {are} removed"
        case c.OtherScheduler():
            if cause.nearest:
                return f"It waits for scheduler {cause.name}, which no profile here has{_suggestion(cause.nearest)}"
            return f"{cause.name} decides where it runs; kplan does not model {cause.name}"
        case c.Leaving():
            return "It is being deleted, so kube-scheduler ignores it"
        case c.NoNodes():
            return "The cluster has no node"
        case c.MissingClaim():
            return f"Its claim {cause.claim} does not exist{_suggestion(cause.nearest)}"
        case c.LeavingClaim():
            return f"Its claim {cause.claim} is being deleted, and goes once no pod uses it"
        case c.UnboundClaim():
            return _unbound(cause)
        case c.LostClaim():
            return f"Its claim {cause.claim} is lost, as {_lost_claim(cause)}"
        case c.MissingOfDevices(kind="DeviceClass"):
            devices = f"Its ResourceClaim {cause.claim} requests devices of class {cause.name}"
            return f"{devices}, which does not exist{_suggestion(cause.nearest)}"
        case c.MissingOfDevices():
            return f"Its {cause.kind} {cause.name} does not exist{_suggestion(cause.nearest)}"
        case c.ClaimNotMade():
            return f"Its claim is not made yet from ResourceClaimTemplate {cause.template}"
        case c.Promised():
            verb = "ends" if len(cause.pods) == 1 else "end"
            return f"It is nominated to {cause.node} and waits until {listing(cause.pods)} {verb}"
        case c.BeforeNodes():
            return f"It is rejected before any node is evaluated: {_clause(cause.message)}"
        case c.NoSuchLabel():
            return _no_label(cause)
        case c.NoSuchCombination():
            there = ", ".join(f"{count} {'has' if count == 1 else 'have'} {label}" for label, count in cause.labels)
            both = "both" if len(cause.labels) == 2 else "all"
            return f"{_of_all(cause.nodes)} has all the labels it requires: {there}, none has {both}"
        case c.NoSuchNode():
            return f"It requires node {cause.name}, which does not exist{_suggestion(cause.nearest)}"
        case c.TooLarge():
            requested, of_all = readable(cause.requested), _of_all(cause.nodes)
            why = _why_so_much(surplus.get(cause.resource))
            if cause.largest == "0":
                return f"{of_all} has {cause.resource}, of which it requests {requested}{_suggestion(cause.nearest)}"
            largest = f"the largest, {cause.node}, has {readable(cause.largest)}"
            return f"{of_all} is large enough, even empty: it requests {requested} {cause.resource}{why}, and {largest}"


def _why_so_much(surplus: c.Surplus | None) -> str:
    """Return what makes a request larger than that of the containers, to stand behind it; empty for nothing."""
    if surplus is None:
        return ""
    starts = f" for init container {surplus.init_container}" if surplus.init_container else ""
    starts += f", the default of LimitRange {surplus.limit_range}" if surplus.limit_range else ""
    of = f"overhead of runtime class {surplus.runtime_class}" if surplus.runtime_class else "overhead of its sandbox"
    return f"{starts} ({readable(surplus.overhead)} of it {of})" if surplus.overhead else starts


def _of_all(nodes: int) -> str:
    return {1: "No node", 2: "Neither node"}.get(nodes, f"None of {nodes} nodes")


def _lost_claim(cause: c.LostClaim) -> str:
    again = "have the claim made again, without the data"
    if not cause.volume:
        return f"it names no volume any more: {again}"
    if cause.holder is None:
        return f"its volume {cause.volume} does not exist any more: bring it back, or {again}"
    if not cause.holder:
        return f"its volume {cause.volume} was gone; the volume is back, and kube-controller-manager binds it again"
    holder = "an earlier claim of that name" if cause.holder == cause.claim else f"claim {cause.holder}"
    return f"its volume {cause.volume} is bound to {holder}: {again}"


def _unbound(cause: c.UnboundClaim) -> str:
    if cause.classes:
        none = f"it names no storage class, and none is the default: name one, such as {listing(cause.classes)}"
        return f"Its claim {cause.claim} is not bound: {none}"
    if not cause.storage_class:
        return f"Its claim {cause.claim} is not bound, and names no storage class that could provision a volume"
    if not cause.class_exists:
        missing = f"there is no storage class {cause.storage_class}{_suggestion(cause.nearest)}"
        return f"Its claim {cause.claim} is not bound: {missing}"
    text = f"Its claim {cause.claim} of storage class {cause.storage_class} is not bound yet"
    if cause.provisioner in ("", NO_PROVISIONER):
        left = cause.released
        volume = f"; volume {left.volume} is kept for {left.former_claim}, which is gone" if left is not None else ""
        return f"{text}, and nobody makes volumes of that class{volume or ': create a PersistentVolume by hand'}"
    namespace, _, name = cause.claim.partition("/")
    return (
        f"{text}: {cause.provisioner} has not made its volume, which it does before the pod has a node, for nodes that "
        f"kplan cannot know; kubectl describe pvc {name} -n {namespace}"
    )


def _no_label(cause: c.NoSuchLabel) -> str:
    wanted = " or ".join(f"{cause.label}={value}" for value in cause.wanted[:_MOST_NAMES])
    wanted += f", which runtime class {cause.runtime_class} requires" if cause.runtime_class else ""
    if not cause.values:
        return f"{_of_all(cause.nodes)} has {wanted}: no node has label {cause.label}{_suggestion(cause.nearest)}"
    if cause.label == HOSTNAME and len(cause.wanted) == 1 and not cause.runtime_class:
        return f"It requires a node with {wanted}, which does not exist{_suggestion(cause.nearest)}"
    values = "the only value is" if len(cause.values) == 1 else "the values are"
    return f"{_of_all(cause.nodes)} has {wanted}; {values} {listing(cause.values, most=5)}{_suggestion(cause.nearest)}"


def _suggestion(name: str) -> str:
    return f" (did you mean {name}?)" if name else ""


def _clause(message: str) -> str:
    return message.rstrip(". \n")


def _groups(causes: c.Causes) -> str:
    out = with_taints_together(causes.out)
    shown = out[:_MOST_GROUPS]
    left_out = sum(group.nodes for group in out[_MOST_GROUPS:])
    total = sum(group.nodes for group in out)
    parts = [f"{group.nodes} {group_text(group, causes.surplus, is_single=group.nodes == 1)}" for group in shown]
    if len(causes.named) == 1 and shown:
        return f"It can run on {causes.named[0]} only, which {group_text(shown[0], causes.surplus, is_single=True)}"
    if causes.named:
        return f"It can run on {listing(causes.named)} only: {', '.join(parts)}"
    if not out:
        return "No node is left that it could go to"
    if len(out) == 1:
        (only,) = shown
        verb, lacked = _lacked(only, f" on {only.closest}")
        if lacked and causes.n_nodes > 1:
            return f"{_of_all(total)} {verb} {lacked}"
        everyone = "Both nodes" if total == 2 else f"All {total} nodes"
        subject = f"The only node, {only.closest}," if causes.n_nodes == 1 else everyone
        return f"{subject} {group_text(only, causes.surplus, is_single=causes.n_nodes == 1)}"
    # A node that is out for a reason of its own may be the one that matters.
    names = listing([group.closest for group in out[_MOST_GROUPS:]])
    such_as = "" if left_out == len(out[_MOST_GROUPS:]) else "such as "
    parts += [f"{left_out} for other reasons ({such_as}{names})"] if left_out else []
    who = f"{total} of {causes.n_nodes} nodes do not fit, and the others were not evaluated"
    if total == causes.n_nodes:
        who = f"{_of_all(total)} fits" if total > 1 else "The only node does not fit"
    return f"{who}: {', '.join(parts)}"


_NOT: Mapping[str, tuple[str, str]] = {
    "has the": ("does not have the", "do not have the"),
    "has a": ("has no", "have no"),
    "has": ("has no", "have no"),
    "is": ("is not", "are not"),
    "can": ("cannot", "cannot"),
}
"""How a sentence about no node goes on -> the same of one node, and of several, that are rejected."""


def _lacked(group: c.NodesOut, on: str) -> tuple[str, str]:  # noqa: PLR0911 - one case a kind, in one place
    """Return what rejected nodes lack, behind the verb for it; empty texts where a sentence reads better otherwise.

    `on`: of which node the numbers are, where that is not clear.
    """
    if group.plugin == "NodeAffinity":
        return "has the", f"labels it requires ({listing(unmet_conditions(group.details))})"
    match group.details[0] if group.details else None:
        case d.UnmetAffinity() as detail:
            return "has a", f"pod that it must run next to ({_beside(group, detail)})"
        case d.OtherVolumeZone() as detail:
            return "is", f"in the zone of volume {detail.volume} ({detail.label}={listing(detail.allowed)})"
        case d.UnreachableVolume() as detail:
            only = f"only nodes with {listing(detail.requires)} can"
            return "can", f"attach volume {detail.volume} of claim {detail.claim} ({_lost(group) or only})"
        case d.TooManyVolumes() as detail:
            volumes = "volume" if len(detail.volumes) == 1 else "volumes"
            use = f"{detail.used} of {detail.limit} in use{on}, {detail.new} more requested"
            return "can", f"attach its {detail.driver} {volumes} ({use})"
        case d.ClaimInUse() as detail:
            users = listing(detail.used_by)
            return (
                "can",
                f"take it, because claim {detail.claim} is for one pod only (ReadWriteOncePod), and {users} uses it",
            )
        case d.UnavailableClaim() as detail:
            where = f" (allocated on {detail.where})" if detail.usable_on else ""
            return "can", f"use the devices of claim {detail.claim}{where}"
        case d.SpreadLabelMissing() | d.AffinityLabelMissing() as detail:
            rule = f"the topology key of its rule{_suggestion(group.meant.suggested)}"
            return "has", f"label {detail.missing_label}, {rule}"
        case _:
            return "", ""


def with_taints_together(groups: Sequence[c.NodesOut]) -> list[c.NodesOut]:
    """Return groups of nodes, the largest first: one of those that people keep free by taints, one of each state."""
    alike = grouped((_taint_kind(group) or str(number), group) for number, group in enumerate(groups))
    if len(alike) == len(groups):
        return list(groups)
    return sorted(map(_together, alike.values()), key=lambda group: (-group.nodes, not is_set_by_people(group)))


def _taint_kind(group: c.NodesOut) -> str:
    """Return the state that the taint of nodes says, or that people set it; empty where it is no taint, or one more."""
    first = group.details[0] if group.details else None
    if is_set_by_people(group):
        return "set by people"
    return NODE_STATES.get(key_of_taint(first.taint), "") if isinstance(first, d.UntoleratedTaint) else ""


def _together(groups: Sequence[c.NodesOut]) -> c.NodesOut:
    meant = max(groups, key=lambda group: (bool(group.meant.suggested), bool(group.meant.instead)))
    if len(groups) == 1:
        return meant
    details = tuple(detail for group in groups for detail in group.details[:1])
    return replace(meant, nodes=sum(group.nodes for group in groups), details=details)


def is_set_by_people(group: c.NodesOut) -> bool:
    """Whether nodes are out because of a taint that says no state of a node."""
    first = group.details[0] if group.details else None
    return (
        isinstance(first, d.UntoleratedTaint)
        and not first.unschedulable
        and key_of_taint(first.taint) not in NODE_STATES
    )


def group_text(group: c.NodesOut, surplus: Mapping[str, c.Surplus], *, is_single: bool) -> str:
    """Return why nodes are rejected, as the end of a sentence whose subject they are."""
    resources = [detail for detail in group.details if isinstance(detail, d.InsufficientResource)]
    if resources and len(resources) == len(group.details):
        return _lack(group, resources, surplus, is_single=is_single)
    verb, lacked = _lacked(group, "" if is_single else f" on {group.closest}")
    if lacked:
        return f"{_NOT[verb][not is_single]} {lacked}"
    if not group.details:
        return f"{'is' if is_single else 'are'} rejected by {group.plugin or 'PreFilter'} ({'; '.join(group.reasons)})"
    return _detail(group, group.details[0], is_single=is_single)


def _lack(
    group: c.NodesOut, resources: Sequence[d.InsufficientResource], surplus: Mapping[str, c.Surplus], *, is_single: bool
) -> str:
    verb, runs = ("lacks", "runs") if is_single else ("lack", "run")
    texts, full = [], ""
    for resource in resources:
        name, free = resource.resource, readable(resource.free)
        requested = readable(resource.requested) + _why_so_much(surplus.get(name))
        largest = group.largest.get(name)
        if name == PODS:
            number = "1 pod" if resource.allocatable == "1" else f"{resource.allocatable} pods"
            full = f"{runs} {number} already, the maximum"
        elif largest == "0":
            texts.append(f"{name} (requests {requested}, {'it has' if is_single else 'they have'} none)")
        elif largest is not None:
            has = f"{'it' if is_single else 'the largest'} has {readable(largest)} even when empty"
            texts.append(f"{name} (requests {requested}, {has})")
        else:
            is_full = free.startswith("-") or (free == "0" and not is_single)
            most = f"{free} free" if is_single else f"at most {free} free, on {group.closest}"
            reserved = f", as room is kept for {listing(group.reserved_for)}" if group.reserved_for else ""
            texts.append(f"{name} (requests {requested}, {'none free' if is_full else most}{reserved})")
    lacking = f"{verb} {' and '.join(texts)}" if texts else ""
    return " and ".join(text for text in (full, lacking) if text)


def unmet_conditions(details: Iterable[d.Detail]) -> tuple[str, ...]:
    """Return the conditions of node selectors and affinities that are not met, each once."""
    wanted: dict[str, None] = {}
    for detail in details:
        if isinstance(detail, d.UnmatchedNodeSelector):
            wanted[detail.node_selector] = None
        elif isinstance(detail, d.UnmatchedNodeAffinity):
            wanted.update(dict.fromkeys(condition.condition for condition in detail.conditions) or {detail.term: None})
    return tuple(wanted)


def _detail(  # noqa: C901, PLR0911 - one case a kind, in one place
    group: c.NodesOut, detail: d.Detail, *, is_single: bool
) -> str:
    are, have = ("is", "has") if is_single else ("are", "have")
    on = "" if is_single else f" on {group.closest}"
    match detail:
        case d.UntoleratedTaint(unschedulable=True):
            return f"{are} cordoned"
        case d.UntoleratedTaint():
            return _taint(group, detail.taint, is_single=is_single)
        case d.OtherNodeName():
            return f"{are} not {detail.requested}, its nodeName"
        case d.TakenHostPort():
            by = listing(detail.pods, and_more=detail.and_more or 0)
            by = f"DaemonSet {group.meant.daemon_set}, also on new nodes: {by}" if group.meant.daemon_set else by
            return f"{have} host port {detail.host_port}/{detail.protocol} taken ({by}{on})"
        case d.TooMuchSkew():
            return _skew(detail)
        case d.OwnAntiAffinity():
            noun = "domain" if group.domains == 1 else "domains"
            where = f"; {group.domains} {noun} of {detail.topology_key}" if group.domains else ""
            return f"{have} pods that its anti-affinity excludes ({detail.pods_in_domain}{where})"
        case d.ForeignAntiAffinity():
            return f"{have} pods whose anti-affinity excludes it ({detail.pods_in_domain})"
        case d.LostVolume():
            return f"cannot take it because volume {detail.volume} of claim {detail.claim} does not exist"
        case d.UnboundClaim():
            return f"{have} {_no_volume(detail)}"
        case d.MissingDriver():
            return f"{'does' if is_single else 'do'} not have CSI driver {detail.driver} installed"
        case d.MissingDevices():
            most = f"requests {detail.wanted} of {detail.device_class or 'any class'}, {detail.free} free{on}"
            most += f"; {count(group.devices.number, 'device')} in all" if group.devices.number else ""
            most += "; no ResourceSlice offers such a device" if group.devices.number == 0 else ""
            most += f", used by {listing(group.devices.held_by)}" if group.devices.held_by else ""
            tainted = group.devices.tainted or detail.tainted
            most += f"; tainted {listing(tainted)}" if tainted else ""
            return f"{'lacks' if is_single else 'lack'} devices for claim {detail.claim} ({most})"
        case _:
            return f"{are} rejected by {group.plugin or 'PreFilter'} ({'; '.join(group.reasons)})"


def _lost(group: c.NodesOut) -> str:
    """Return that the only node that can attach a volume is gone; empty where that is not so."""
    gone = f"only node {group.meant.lost_node} can, which does not exist any more: bring it back"
    return f"{gone}, or delete the claim, and with it the data" if group.meant.lost_node else ""


def _no_volume(detail: d.UnboundClaim) -> str:
    storage_class = detail.storage_class or "none"
    largest = f"; the largest has {detail.largest_volume}" if detail.largest_volume else ""
    wanted = f"{detail.requested} of class {storage_class}"
    if detail.allowed_topologies:
        where = " or ".join(detail.allowed_topologies[:_MOST_NAMES])
        return f"no volume for claim {detail.claim} ({wanted}, whose volumes are provisioned only where {where})"
    if detail.provisions is False:
        numbers = detail.volumes_rejected or {}
        there = [f"{numbers[why]} {words}" for why, words in _NO_USE.items() if why in numbers]
        existing = f"; existing: {listing(there)}" if there else ""
        return f"no free volume for claim {detail.claim} ({wanted}, for which none are provisioned{largest}{existing})"
    return f"no volume for claim {detail.claim} ({wanted}{largest})"


_NO_USE: Mapping[str, str] = {
    "tooSmall": "too small",
    "notSuitable": "not suitable",
    "promisedToOthers": "held for another claim",
}
"""Why a claim does not get volumes that exist, as far as that is not the node."""


def where_such_pods_run(detail: d.UnmetAffinity) -> str:
    """Return in which domains, or on which nodes, pods run that a required affinity matches."""
    domains = listing(detail.domains_with_matching_pods, detail.and_more)
    preposition = "on" if detail.topology_key == HOSTNAME else "in"
    return f"such pods run {preposition} {domains}" if domains else "no such pod runs anywhere"


def _beside(group: c.NodesOut, detail: d.UnmetAffinity) -> str:
    where = where_such_pods_run(detail)
    suggested = f"; did you mean {group.meant.suggested}?" if group.meant.suggested else ""
    if group.meant.runs_in:
        searched = [name for term in detail.terms for name in term.namespaces if term.namespaces != "all"]
        where = f"such pods run in namespace {group.meant.runs_in}, and the rule searches only {listing(searched)}"
    terms = " and ".join(term.label_selector or "any labels" for term in detail.terms)
    return f"{terms} per {detail.topology_key}; {where}{suggested}"


def _taint(group: c.NodesOut, taint: str, *, is_single: bool) -> str:
    meaning = NODE_STATES.get(key_of_taint(taint))
    if meaning is None and is_startup_taint(key_of_taint(taint)):
        return f"{'is' if is_single else 'are'} not set up yet (taint {taint})"
    if meaning is None:
        taints = [detail.taint for detail in group.details if isinstance(detail, d.UntoleratedTaint)]
        some = "a taint" if len(taints) == 1 else "taints"
        suggested = f"; it tolerates {group.meant.instead}" if group.meant.instead else ""
        suggested += f": did you mean {group.meant.suggested}?" if group.meant.suggested else ""
        return f"{'has' if is_single else 'have'} {some} it does not tolerate ({listing(taints)}{suggested})"
    return f"{'is' if is_single else 'are'} {meaning}"


def _skew(detail: d.TooMuchSkew) -> str:
    if detail.min_domains:
        why = f"only {detail.domains} of at least {detail.min_domains} domains exist"
    elif detail.emptiest_domains:
        emptiest = listing(detail.emptiest_domains)
        why = f"{detail.domains} domains, the fewest pods are {detail.minimum} in {emptiest}"
    else:
        why = f"{detail.domains} domains, the fewest pods are {detail.minimum}"
    there = f"{detail.matching_pods} in {detail.domain}"
    return f"would exceed maxSkew {detail.max_skew} over {detail.topology_key} ({there}; {why})"
