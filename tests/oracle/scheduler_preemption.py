"""Default preemption for the oracle scheduler: every node in turn, on a copy that really changes."""

from datetime import datetime

from tests.oracle.labels import is_terminating, labels_of, namespace_of
from tests.oracle.preemption import choose, select_victims
from tests.oracle.scheduler_world import key_of, priority_of

NO_CLAIMS = "no new claims to deallocate"
NO_VICTIMS = ("UnschedulableAndUnresolvable", "", ["No preemption victims found for incoming pod"])
NOT_HELPFUL = "Preemption is not helpful for scheduling"


class Victim:
    """What the choice of victims and between candidates wants to know of a pod."""

    def __init__(self, pod):
        self.pod, self.priority, self.start = pod, priority_of(pod), start_of(pod)
        self.name, self.namespace, self.labels = pod["metadata"]["name"], namespace_of(pod), labels_of(pod)


class Trial:
    """A copy of a node and of what is known in a cycle, for `select_victims`."""

    def __init__(self, info, cycle):
        self.here, self.cycle = info.copy(), cycle.copy()

    def remove(self, victim):
        self.cycle.change(victim.pod, self.here, -1)

    def add(self, victim):
        self.cycle.change(victim.pod, self.here, 1)

    def rejection(self):
        return self.cycle.filter(self.here)


def start_of(pod):
    text = (pod.get("status") or {}).get("startTime")
    return None if text is None else datetime.fromisoformat(text).timestamp()


def preempt(scheduler, cycle, key, statuses):
    """Return a preemption document; nothing changes."""
    world, pod = scheduler.world, cycle.pod
    obstacle = _obstacle(world, pod, key, statuses)
    if obstacle:
        return nothing_found(f"{NO_CLAIMS}, preemption: {obstacle}")
    may_help = [name for name in world.in_zone_order() if statuses[name][0] == "Unschedulable"]
    limit = _n_candidates(cycle.profile.args_of("DefaultPreemption"), len(may_help)) if scheduler.sampling else None
    clean, violating, rejected = {}, {}, {}
    for name in may_help:
        found = _victims_on(world.nodes[name], cycle)
        if len(found) == 3:
            rejected[name] = found
        else:
            kind = violating if found[1] else clean
            if limit is None or len(kind) < limit:
                kind[name] = found
            if limit is not None and clean and len(clean) + len(violating) >= limit:
                break
    candidates = {**clean, **violating}
    told = {name: dict(zip(("code", "plugin", "reasons"), status, strict=True)) for name, status in rejected.items()}
    if not candidates:
        message = f"{NO_CLAIMS}, preemption: {_not_helpful(world, rejected)}"
        return {**nothing_found(message), "eligible": True, "rejected": told}
    ties, decided_by = choose(candidates)
    victims = [victim.pod for victim in candidates[ties[0]][0]]
    return {
        "eligible": True,
        "message": "",
        "nominatedNode": ties[0],
        "ties": ties,
        "decidedBy": decided_by,
        "candidates": {
            name: {"victims": [key_of(each.pod) for each in found], "pdbViolations": n}
            for name, (found, n) in candidates.items()
        },
        "rejected": told,
        "cleared": _cleared(world, pod, ties[0], victims),
    }


def nothing_found(message):
    """Return the document of a preemption that was not tried."""
    told = {"eligible": False, "message": message, "nominatedNode": None, "decidedBy": None}
    return {**told, "ties": [], "candidates": {}, "rejected": {}, "cleared": []}


def _obstacle(world, pod, key, statuses):
    if pod["spec"].get("preemptionPolicy") == "Never":
        return "not eligible due to preemptionPolicy=Never."
    promised = world.nominated.get(key)
    if promised not in world.nodes or statuses[promised][0] == "UnschedulableAndUnresolvable":
        return ""
    for other in world.nodes[promised].pods:
        if priority_of(other) < priority_of(pod) and _is_leaving(other):
            return "not eligible due to a terminating pod on the nominated node."
    return ""


def _is_leaving(pod):
    conditions = (pod.get("status") or {}).get("conditions", [])
    disruption = next((each for each in conditions if each["type"] == "DisruptionTarget"), {})
    is_by_scheduler = disruption.get("status") == "True" and disruption.get("reason") == "PreemptionByScheduler"
    return is_terminating(pod) and is_by_scheduler


def _n_candidates(args, n_nodes):
    share = n_nodes * args.get("minCandidateNodesPercentage", 10) // 100
    return min(max(share, args.get("minCandidateNodesAbsolute", 100)), n_nodes)


def _not_helpful(world, rejected):
    counts = {}
    for _, _, reasons in rejected.values():
        for reason in reasons:
            counts[reason] = counts.get(reason, 0) + 1
    if len(rejected) < len(world.nodes):
        counts[NOT_HELPFUL] = counts.get(NOT_HELPFUL, 0) + len(world.nodes) - len(rejected)
    parts = sorted(f"{n} {reason}" for reason, n in counts.items())
    return f"0/{len(world.nodes)} nodes are available: {', '.join(parts)}."


def _victims_on(info, cycle):
    """Return (victims, number of violations), or the status (code, plugin, reasons) of a node that does not help."""
    victims = [Victim(pod) for pod in info.pods]
    found = select_victims(victims, priority_of(cycle.pod), Trial(info, cycle), cycle.world.budgets)
    if found == "no victims":
        return NO_VICTIMS
    return found if found[0] else ("Error", "", [f'expected at least one victim pod on node "{info.name}"'])


def _cleared(world, pod, node, victims):
    """Nothing happens to nominations where all victims are on their way out already."""
    if all(is_terminating(victim) for victim in victims):
        return []
    return [key_of(other) for other in world.nominated_to(node) if priority_of(other) < priority_of(pod)]


def take_place(world, key, found):
    """Evict the victims, by name, drop nominations and nominate the pod."""
    node = found["nominatedNode"]
    for victim in sorted(found["candidates"][node]["victims"], key=lambda key: key.split("/")):
        world.nodes[node].remove(world.pods[victim])
    for other in found["cleared"]:
        world.nominated.pop(other, None)
    world.nominated[key] = node
