"""Terms by code are the terms that each pod has, however often they were said before."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kplan.api.core import Pod
from kplan.api.decode import convert
from kplan.engine.term_sets import TermSets
from kplan.rules.affinity import NO_TERMS, affinity_terms
from kplan.rules.pod_info import PodInfo
from tests.engine.crowds import POD_POOL

TERM = {"topologyKey": "zone", "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Odd"}]}}
ODD = convert(
    {
        "metadata": {"name": "odd"},
        "spec": {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}},
    },
    Pod,
)
SAID = st.lists(st.sampled_from([*(info.pod for info in POD_POOL if info.pod.spec.affinity), ODD]), max_size=12)


@settings(deadline=None, max_examples=80)
@given(SAID, SAID)
def test_the_terms_of_a_code_are_those_of_the_pod(pods: list[Pod], more: list[Pod]) -> None:
    terms = TermSets()
    infos = [PodInfo(pod) for pod in pods]
    codes = [terms.code(info) for info in infos]
    copied = terms.copy()
    added = [PodInfo(pod) for pod in more]
    codes_of_added = [copied.code(info) for info in added]

    for info, code in zip([*infos, *added], [*codes, *codes_of_added], strict=True):
        assert (info.affinity, info.affinity_error) == affinity_terms(info.pod)
        assert copied.sets[code] == info.affinity
    assert terms.sets == copied.sets[: len(terms.sets)]
    assert copied.sets[0] is NO_TERMS
    assert len(set(copied.sets)) == len(copied.sets)


def test_replicas_share_what_was_compiled() -> None:
    terms = TermSets()
    one = next(info.pod for info in POD_POOL if info.affinity)
    infos = [PodInfo(one), PodInfo(one)]

    assert terms.code(infos[0]) == terms.code(infos[1])
    assert infos[0].affinity is infos[1].affinity
