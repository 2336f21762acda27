"""What makes topology constraints one, and where each lets a pod go."""

import pytest

from kplan.api.affinity import HONOR, Toleration
from kplan.api.labels import ZONE
from kplan.api.meta import LabelSelector
from kplan.autoscaling.karpenter.requirements import Vocabulary
from kplan.autoscaling.karpenter.topology import IGNORE, NodeFilter, TopologyGroup, Type

WEB = LabelSelector(match_labels={"app": "web"})
SHOP = frozenset({"shop"})
KNOWN = Vocabulary([])


def group(kind: Type, counts: dict[str, int], *, key: str = ZONE, **options: int) -> TopologyGroup:
    return TopologyGroup(KNOWN, kind, key, SHOP, WEB, **options, counts=dict(counts))  # type: ignore[arg-type]  # only numbers


def next_domains(constraint: TopologyGroup, *allowed: str, is_own: bool = True) -> list[str]:
    pod = KNOWN.requirement(ZONE, "In", allowed) if allowed else None
    # The node is one that meets what the pod requires.
    return constraint.next_domains(pod, pod, selects_itself=is_own)


@pytest.mark.parametrize(("max_skew", "expected"), [(1, []), (2, ["a"])])
def test_a_spread_keeps_its_skew_over_the_domains_that_the_pod_allows(max_skew: int, expected: list[str]) -> None:
    constraint = group(Type.SPREAD, {"a": 1, "b": 0}, max_skew=max_skew, min_domains=3)
    # Fewer domains than wanted count as one without any pod.
    assert next_domains(constraint, "a") == expected


def test_an_affinity_follows_pods_that_run_or_begins_where_none_do() -> None:
    assert next_domains(group(Type.AFFINITY, {"a": 0, "b": 2, "c": 1})) == ["b", "c"]
    assert next_domains(group(Type.AFFINITY, {"a": 0, "b": 0})) == ["a"]
    assert next_domains(group(Type.AFFINITY, {"a": 0, "b": 2}), "a") == ["a"]
    assert next_domains(group(Type.AFFINITY, {"a": 0, "b": 0}), is_own=False) == []


def test_constraints_are_one_where_upstreams_hash_sees_no_difference() -> None:
    def identity(*values: str, tolerations: tuple[Toleration, ...] = ()) -> object:
        alternatives = tuple(KNOWN.of_labels({"disk": value}) for value in values)
        counted = NodeFilter(alternatives, IGNORE, HONOR, tolerations)
        return TopologyGroup(KNOWN, Type.SPREAD, ZONE, SHOP, WEB, max_skew=1, filter=counted).identity

    # It hashes the labels that are asked for, but not their values.
    assert identity("ssd") == identity("hdd")
    # It combines the elements of a list by exclusive or: what is there twice is not there.
    assert identity("ssd", "hdd") == identity()
    once = Toleration(key="a", operator="Exists")
    assert identity(tolerations=(once, once)) == identity()
    assert identity(tolerations=(once,)) != identity()
