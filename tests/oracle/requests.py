"""What a pod asks for: exact sums of quantities, from JSON objects."""

import re
from fractions import Fraction
from functools import cache
from math import ceil

ALWAYS = ("cpu", "memory", "ephemeral-storage")
"""Resources that count in scores whether or not the pod asks for them."""

UNITS = {"n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": 1}
UNITS |= {suffix: 1000**power for power, suffix in enumerate("kMGTPE", start=1)}
UNITS |= {f"{suffix}i": 1024**power for power, suffix in enumerate("KMGTPE", start=1)}


@cache
def quantity(text):
    """Parse a quantity as the API writes it."""
    number, exponent, suffix = re.fullmatch(r"([+-]?[0-9.]+)(?:[eE]([+-]?[0-9]+))?([A-Za-z]*)", str(text)).groups()
    return Fraction(number) * Fraction(10) ** int(exponent or 0) * UNITS[suffix]


def units(name, amount):
    """Round up to milliCPU, bytes or counts."""
    return ceil(amount * 1000) if name == "cpu" else ceil(amount)


def allocatable(node, name):
    return units(name, quantity(node["status"]["allocatable"].get(name, 0)))


def pod_requests(pod, missing=None, pod_level=True):
    """Sum of containers, or the largest moment of starting up, then what the pod as a whole says, then overhead."""
    spec = pod["spec"]
    running = [each for each in spec.get("initContainers", []) if each.get("restartPolicy") == "Always"]
    total = _sum([_container(each, missing) for each in [*spec["containers"], *running]])
    so_far = []
    for container in spec.get("initContainers", []):
        moment = _sum([*so_far, _container(container, missing)])
        if container.get("restartPolicy") == "Always":
            so_far.append(_container(container, missing))
        total = {name: max(total.get(name, 0), moment.get(name, 0)) for name in {*total, *moment}}
    if pod_level:
        whole = (spec.get("resources") or {}).get("requests", {})
        total.update({name: quantity(text) for name, text in whole.items()})
    total = _sum([total, {name: quantity(text) for name, text in spec.get("overhead", {}).items()}])
    return {name: units(name, amount) for name, amount in total.items()}


def nonzero(pod):
    """What a running pod counts for in scores: like what it asks for, with defaults for CPU and memory.

    Where something is asked for the whole pod, only a resource that no container names either gets its default.
    """
    named = pod_requests(pod) if (pod["spec"].get("resources") or {}).get("requests") else {}
    defaults = {"cpu": Fraction(1, 10), "memory": Fraction(200 * 2**20)}
    return pod_requests(pod, {name: amount for name, amount in defaults.items() if name not in named})


def _container(container, missing):
    asked = {name: quantity(text) for name, text in container.get("resources", {}).get("requests", {}).items()}
    return {**(missing or {}), **asked}


def _sum(parts):
    total = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, 0) + amount
    return total
