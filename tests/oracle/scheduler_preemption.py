"""Default preemption for the oracle scheduler: every node in turn, on a copy that really changes."""

from datetime import datetime

from tests.oracle.go_sort import go_sort
from tests.oracle.labels import is_terminating, labels_of, namespace_of, selects
from tests.oracle.preemption import choose
from tests.oracle.scheduler_world import key_of, priority_of

NO_CLAIMS = "no new claims to deallocate"
NO_VICTIMS = ("UnschedulableAndUnresolvable", "", ["No preemption victims found for incoming pod"])
NOT_HELPFUL = "Preemption is not helpful for scheduling"


class Victim:
    """What the choice between candidates wants to know of a pod."""

    def __init__(self, pod):
        self.pod, self.priority, self.start = pod, priority_of(pod), start_of(pod)


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
    here, trial = info.copy(), cycle.copy()
    potential = [pod for pod in here.pods if priority_of(pod) < priority_of(cycle.pod)]
    for pod in potential:
        trial.change(pod, here, -1)
    if not potential:
        return NO_VICTIMS
    rejection = trial.filter(here)
    if rejection is not None:
        return rejection
    violating, others = _split(by_importance(potential), cycle.world.budgets)
    victims, n_violations = [], 0
    for pod in [*violating, *others]:
        trial.change(pod, here, 1)
        if trial.filter(here) is not None:
            trial.change(pod, here, -1)
            victims.append(pod)
            n_violations += any(pod is each for each in violating)
    if violating and others:
        victims = by_importance(victims)
    if not victims:
        return ("Error", "", [f'expected at least one victim pod on node "{info.name}"'])
    return [Victim(pod) for pod in victims], n_violations


def by_importance(pods):
    return [victim.pod for victim in go_sort(map(Victim, pods), _is_more_important)]


def _is_more_important(one, other):
    """Both without a start: asked first means started first, as the clock moves on in between."""
    if one.priority != other.priority:
        return one.priority > other.priority
    return other.start is None or (one.start is not None and one.start < other.start)


def _split(pods, budgets):
    left = [budget["status"].get("disruptionsAllowed", 0) for budget in budgets]
    violating, others = [], []
    for pod in pods:
        breaks = False
        for i, budget in enumerate(budgets):
            selector = budget["spec"].get("selector") or {}
            is_meant = labels_of(pod) and namespace_of(budget) == namespace_of(pod) and any(selector.values())
            if not is_meant or not selects(selector, labels_of(pod)):
                continue
            if pod["metadata"]["name"] in (budget["status"].get("disruptedPods") or {}):
                continue
            left[i] -= 1
            breaks = breaks or left[i] < 0
        (violating if breaks else others).append(pod)
    return violating, others


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
