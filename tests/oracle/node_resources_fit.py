"""NodeResourcesFit, one node at a time; `info` is the node with its pods."""

import math
from fractions import Fraction

from tests.oracle.scheduler_world import is_scalar

ORDER = {"cpu": 0, "memory": 1, "ephemeral-storage": 2}
CPU_AND_MEMORY = [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]


def filter_node(pod, info, ignored=(), device_resources=()):
    """Return None or (code, reasons); `device_resources` have a device class behind them."""
    reasons, hopeless = [], False
    if len(info.pods) + 1 > info.allocatable.get("pods", 0):
        reasons.append("Too many pods")
    asked = info.needs_of(pod).incoming
    for name in sorted(asked, key=lambda name: (ORDER.get(name, 3), name)):
        counts = name in ORDER or is_scalar(name)
        if not counts or asked[name] == 0 or name in ignored or name.split("/")[0] in ignored:
            continue
        has = info.allocatable.get(name, 0)
        if name in device_resources and has == 0:
            continue
        if asked[name] > has - info.used(name):
            reasons.append(f"Insufficient {name}")
            hopeless = hopeless or asked[name] > has
    return ("UnschedulableAndUnresolvable" if hopeless else "Unschedulable", reasons) if reasons else None


def score(pod, info, strategy):
    """Return the score of a `scoringStrategy` as the configuration has it."""
    kind = strategy.get("type", "LeastAllocated")
    asked = info.needs_of(pod).incoming_nonzero
    total = weights = 0
    for each in strategy.get("resources", CPU_AND_MEMORY):
        name, has = each["name"], info.allocatable.get(each["name"], 0)
        if has == 0 or (is_scalar(name) and asked.get(name, 0) == 0):
            continue
        used = info.used_nonzero(name) + asked.get(name, 0)
        if kind == "LeastAllocated":
            points = 0 if used > has else (has - used) * 100 // has
        elif kind == "MostAllocated":
            points = min(used, has) * 100 // has
        else:
            shape = strategy["requestedToCapacityRatio"]["shape"]
            line = [(point["utilization"], point["score"]) for point in shape]
            points = _on_line(line, 100 if used > has else used * 100 // has)
            if points <= 0:
                continue
        total += points * each["weight"]
        weights += each["weight"]
    if not weights:
        return 0
    if kind == "RequestedToCapacityRatio":
        return math.floor(total / weights + 0.5)
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
