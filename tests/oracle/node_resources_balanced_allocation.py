"""NodeResourcesBalancedAllocation, one node at a time."""

import math

from .requests import ALWAYS, allocatable, pod_requests


def score(pod, node, running, resources):
    """Return None when the pod asks for nothing that counts."""
    asked = pod_requests(pod)
    if not any(asked.get(name, 0) for name in resources):
        return None
    before, after = [], []
    for name in resources:
        has = allocatable(node, name)
        if has == 0 or (name not in ALWAYS and asked.get(name, 0) == 0):
            continue
        used = sum(pod_requests(each).get(name, 0) for each in running)
        before.append(min(float(used) / float(has), 1.0))
        after.append(min(float(used + asked.get(name, 0)) / float(has), 1.0))
    return 50 + (50 + _evenness(after) - _evenness(before)) // 2


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
