"""Karpenter gives up preferences one by one, in its order."""

from typing import Any

from kplan.api.affinity import Toleration
from kplan.api.core import PodSpec
from kplan.api.decode import convert
from kplan.autoscaling.karpenter.pod_requirements import PodRequirements, pod_requirements_of, tolerating_preferences

ZONE = "topology.kubernetes.io/zone"


def term(value: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [value]}]}


def preferred(weight: int, value: str) -> dict[str, Any]:
    return {"weight": weight, "preference": term(value)}


def near(weight: int) -> dict[str, Any]:
    return {"weight": weight, "podAffinityTerm": {"topologyKey": ZONE, "labelSelector": {}}}


def spread(key: str, when: str) -> dict[str, Any]:
    return {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": when, "labelSelector": {}}


SPEC = {
    "containers": [{"name": "c"}],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term("a"), term("b")]},
            "preferredDuringSchedulingIgnoredDuringExecution": [preferred(1, "c"), preferred(9, "d")],
        },
        "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [near(1)]},
        "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [near(2)]},
    },
    "topologySpreadConstraints": [
        spread("one", "ScheduleAnyway"),
        spread("two", "DoNotSchedule"),
        spread("three", "ScheduleAnyway"),
    ],
}


def sizes(pod: PodRequirements) -> tuple[int, ...]:
    terms = (pod.required or (), pod.preferred_affinity, pod.preferred_anti_affinity, pod.preferred)
    return (*map(len, terms), len(pod.spreads), len(pod.tolerations))


def test_the_order_in_which_wishes_are_given_up() -> None:
    pod: PodRequirements | None = pod_requirements_of(convert(SPEC, PodSpec))
    steps = []
    while pod is not None:
        last, pod = pod, pod.relaxed(tolerates_preferences=True)
        steps.append(sizes(last))

    assert steps == [
        (2, 1, 1, 2, 3, 0),
        (1, 1, 1, 2, 3, 0),
        (1, 0, 1, 2, 3, 0),
        (1, 0, 0, 2, 3, 0),
        (1, 0, 0, 1, 3, 0),
        (1, 0, 0, 0, 3, 0),
        (1, 0, 0, 0, 2, 0),
        (1, 0, 0, 0, 1, 0),
        (1, 0, 0, 0, 1, 1),
    ]


def test_a_toleration_for_a_while_is_one_too() -> None:
    tolerations = convert(
        [{"operator": "Exists", "effect": "PreferNoSchedule", "tolerationSeconds": 5}], tuple[Toleration, ...]
    )
    assert tolerating_preferences(tolerations) is None
