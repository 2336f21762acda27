"""NodeResourcesFit, one node at a time."""

from fractions import Fraction

from .requests import ALWAYS, allocatable, nonzero, pod_requests

ORDER = {"cpu": 0, "memory": 1, "ephemeral-storage": 2}


def filter_node(pod, node, running, ignored=(), device_resources=()):
    """Return None or (code, reasons); `device_resources` have a device class behind them."""
    reasons, hopeless = [], False
    if len(running) + 1 > allocatable(node, "pods"):
        reasons.append("Too many pods")
    asked = pod_requests(pod)
    for name in sorted(asked, key=lambda name: (ORDER.get(name, 3), name)):
        if asked[name] == 0 or name in ignored or name.split("/")[0] in ignored:
            continue
        has = allocatable(node, name)
        if name in device_resources and has == 0:
            continue
        used = sum(pod_requests(each).get(name, 0) for each in running)
        if asked[name] > has - used:
            reasons.append(f"Insufficient {name}")
            hopeless = hopeless or asked[name] > has
    if not reasons:
        return None
    return ("UnschedulableAndUnresolvable" if hopeless else "Unschedulable", reasons)


def score(pod, node, running, strategy, resources, points=()):
    """Return the score of a strategy; `resources` are (name, weight), `points` (utilization, score up to 10)."""
    asked = pod_requests(pod, {"cpu": Fraction(1, 10), "memory": Fraction(200 * 2**20)}, pod_level=False)
    total = weights = 0
    for name, weight in resources:
        has = allocatable(node, name)
        if has == 0 or (name not in ALWAYS and asked.get(name, 0) == 0):
            continue
        used = sum(nonzero(each).get(name, 0) for each in running) + asked.get(name, 0)
        if strategy == "LeastAllocated":
            points_here = 0 if used > has else (has - used) * 100 // has
        elif strategy == "MostAllocated":
            points_here = min(used, has) * 100 // has
        else:
            points_here = _on_line(points, 100 if used > has else used * 100 // has)
            if points_here == 0:
                continue
        total += weight * points_here
        weights += weight
    if not weights:
        return 0
    if strategy == "RequestedToCapacityRatio":
        return int(Fraction(total, weights) + Fraction(1, 2))
    return total // weights


def _on_line(points, at):
    before = None
    for utilization, score in points:
        if at <= utilization:
            if before is None:
                return score * 10
            rise = Fraction((score - before[1]) * 10 * (at - before[0]), utilization - before[0])
            return before[1] * 10 + int(rise)
        before = (utilization, score)
    return points[-1][1] * 10
