"""NodeResourcesBalancedAllocation, one node at a time."""

import math

from tests.oracle.scheduler_world import is_scalar


def score(pod, info, names):
    """Return None when the pod asks for nothing that counts; `info` is the node with its pods."""
    asked = info.needs_of(pod).running
    if not any(asked.get(name, 0) for name in names):
        return None
    before, after = [], []
    for name in names:
        has = info.allocatable.get(name, 0)
        if has and not (is_scalar(name) and asked.get(name, 0) == 0):
            used = info.used(name)
            before.append(min(float(used) / float(has), 1.0))
            after.append(min(float(used + asked.get(name, 0)) / float(has), 1.0))
    return 50 + int((50 + _evenness(after) - _evenness(before)) / 2)


def _evenness(shares):
    if len(shares) == 2:
        deviation = abs((shares[0] - shares[1]) / 2)
    elif len(shares) > 2:
        total = 0.0
        for share in shares:
            total += share
        mean = total / len(shares)
        squares = 0.0
        for share in shares:
            squares += (share - mean) * (share - mean)
        deviation = math.sqrt(squares / len(shares))
    else:
        deviation = 0.0
    return int((1 - deviation) * 100)
