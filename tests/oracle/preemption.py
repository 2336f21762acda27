"""DefaultPreemption, one node after another, on worlds that really change.

A world is one node that the incoming pod does not fit on: `remove(pod)` and `add(pod)` change it, `rejection()` says
why the pod does not pass now, or None. Pods are anything with key, name, namespace, labels, priority and start (a
number, or None).
"""

from tests.oracle.labels import selects

INFINITE = float("inf")


def is_more_important(one, other):
    if one.priority != other.priority:
        return one.priority > other.priority
    if one.start is None:
        return other.start is None  # both count as started now, and "now" is earlier for the one that is asked first
    return other.start is None or one.start < other.start


def by_importance(pods):
    """Sort by insertion, as Go does where there are at most twelve: the comparison contradicts itself."""
    assert len(pods) <= 12
    order = []
    for pod in pods:
        at = len(order)
        while at and is_more_important(pod, order[at - 1]):
            at -= 1
        order.insert(at, pod)
    return order


def split_by_budgets(pods, budgets):
    """Return (violating, others); a budget that has been used up is overdrawn further."""
    left = [budget["status"].get("disruptionsAllowed", 0) for budget in budgets]
    violating, others = [], []
    for pod in pods:
        breaks = False
        for i, budget in enumerate(budgets):
            selector = budget["spec"].get("selector") or {}
            is_meant = pod.labels and budget["metadata"]["namespace"] == pod.namespace and any(selector.values())
            if not is_meant or not selects(selector, pod.labels):
                continue
            if pod.name in (budget["status"].get("disruptedPods") or {}):
                continue
            left[i] -= 1
            breaks = breaks or left[i] < 0
        (violating if breaks else others).append(pod)
    return violating, others


def select_victims(pods, priority, world, budgets):
    """Return "no victims", why the pod does not fit without any of them, or (victims, number of violations)."""
    potential = [pod for pod in pods if pod.priority < priority]
    if not potential:
        return "no victims"
    for pod in potential:
        world.remove(pod)
    rejection = world.rejection()
    if rejection is not None:
        return rejection
    violating, others = split_by_budgets(by_importance(potential), budgets)
    victims = []
    n_violations = 0
    for pod in violating + others:
        world.add(pod)
        if world.rejection() is not None:
            world.remove(pod)
            victims.append(pod)
            n_violations += pod in violating
    if violating and others:
        victims = by_importance(victims)
    return victims, n_violations


def choose(candidates):
    """Return the names that are equal on all criteria, and the criterion that decided; `candidates` are by name."""
    criteria = {
        "pdb-violations": lambda victims, n_violations: n_violations,
        "lowest-highest-victim-priority": lambda victims, _: victims[0].priority,
        "lowest-priority-sum": lambda victims, _: sum(victim.priority + 2**31 for victim in victims),
        "fewest-victims": lambda victims, _: len(victims),
        "latest-start-time": lambda victims, _: -earliest_start(victims),
    }
    if len(candidates) == 1:
        return sorted(candidates), "only-candidate"
    left = sorted(candidates)
    for name, value in criteria.items():
        best = min(value(*candidates[node]) for node in left)
        left = [node for node in left if value(*candidates[node]) == best]
        if len(left) == 1:
            return left, name
    return left, "tie"


def earliest_start(victims):
    highest = max(victim.priority for victim in victims)
    return min(INFINITE if each.start is None else each.start for each in victims if each.priority == highest)
