import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kplan.api.decode import convert
from kplan.config.args import NodeAffinityArgs
from kplan.framework.interface import PreScoreResult, StatusCode
from kplan.framework.results import PluginError
from kplan.plugins.node_affinity import NodeAffinity
from tests.oracle import node_affinity as oracle

from .asking import details
from .worlds import KEYS, VALUES, World, few, node, node_selector_terms, pod, scored


def make(world, added=None):
    return NodeAffinity(convert({"addedAffinity": added}, NodeAffinityArgs), world.handle)


def required(*terms):
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}


def preferred(*terms):
    each = [{"weight": weight, "preference": term} for weight, term in terms]
    return {"preferredDuringSchedulingIgnoredDuringExecution": each}


def wants(affinity, **spec):
    return pod(affinity={"nodeAffinity": affinity}, **spec)


def label(key, operator, *values):
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def name(operator, *values):
    return {"matchFields": [{"key": "metadata.name", "operator": operator, "values": list(values)}]}


LABELS = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES), max_size=3)
CLUSTERS = st.lists(LABELS, min_size=1, max_size=5).map(
    lambda sets: World([node(f"n{index}", labels=labels) for index, labels in enumerate(sets)])
)
TERMS = st.lists(node_selector_terms(), max_size=3)
WEIGHTED = st.lists(st.tuples(st.integers(1, 100), node_selector_terms()), min_size=1, max_size=3)


@few
@given(CLUSTERS, TERMS, LABELS, st.none() | TERMS)
def test_filter_equals_the_oracle(world, terms, selector, added):
    incoming = wants(required(*terms), nodeSelector=selector)
    plugin, cycle = make(world, None if added is None else required(*added)), world.cycle(incoming)
    result = plugin.pre_filter(cycle)
    if result is not None and result.status is not None:
        return

    verdicts = plugin.filter(cycle, world.view())

    enforced = None if added is None else {"nodeSelectorTerms": added}
    expected = [oracle.filter_node(incoming, each, enforced) for each in world.nodes]
    assert [
        (verdicts.code_at(i).text, [reason.text for reason in verdicts.reasons_at(i)]) if verdicts.bits[i] else None
        for i in range(len(world.nodes))
    ] == expected
    if result is not None and result.nodes is not None and added is None:
        passing = {
            each["metadata"]["name"] for each, answer in zip(world.nodes, expected, strict=True) if answer is None
        }
        assert passing <= result.nodes, "PreFilter names all nodes that can pass"


@few
@given(CLUSTERS, WEIGHTED, st.none() | WEIGHTED)
def test_score_equals_the_oracle(world, terms, added):
    incoming = wants(preferred(*terms))
    plugin, cycle = make(world, added and preferred(*added)), world.cycle(incoming)
    raw = scored(plugin, cycle, world.view())
    more = preferred(*(added or ()))["preferredDuringSchedulingIgnoredDuringExecution"]
    assert raw == [oracle.score(incoming, each, more) for each in world.nodes]
    assert plugin.normalize_score(cycle, np.asarray(raw)).tolist() == oracle.normalized(raw)
    rows = list(range(len(world.nodes)))[::-2]
    assert scored(plugin, cycle, world.view(rows)) == [raw[row] for row in rows]


SSD = node("ssd-1", labels={"disk": "ssd", "rank": "12", "zone": "a"})


def test_a_wish_that_cannot_be_read_is_an_error():
    world = World([SSD])
    plugin, incoming = make(world), wants(preferred((5, label("disk", "Near", "ssd"))))
    text = (
        '[0].matchExpressions[0].operator: Unsupported value: "Near": '
        'supported values: "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"'
    )

    status = plugin.pre_score(world.cycle(incoming), world.view())

    assert (status.code, status.message) == (StatusCode.ERROR, text)
    with pytest.raises(PluginError) as raised:
        plugin.score(world.cycle(incoming), world.view())
    assert str(raised.value) == f'running Score plugins: plugin "NodeAffinity" failed with: {text}'


def test_details_say_of_every_term_what_fails():
    world = World([SSD])
    terms = [{**label("disk", "In", "hdd"), **name("In", "other")}, label("gpu", "Exists"), label("disk", "Near")]
    incoming = wants(required(*terms), nodeSelector={"zone": "b"})

    assert details(make(world), world.cycle(incoming), world.view()) == [
        {"nodeSelector": "zone=b", "actual": "a"},
        {
            "term": "disk=hdd,metadata.name=other", "failed": ["disk=hdd (is ssd)", "metadata.name=other (is ssd-1)"],
            "conditions": [
                {"condition": "disk=hdd", "actual": "ssd", "isName": False},
                {"condition": "metadata.name=other", "actual": "ssd-1", "isName": True},
            ],
        },
        {
            "term": "gpu", "failed": ["gpu (no such label)"],
            "conditions": [{"condition": "gpu", "actual": None, "isName": False}],
        },
        {
            "term": "",
            "failed": [
                ('nodeSelectorTerms[2].matchExpressions[0].operator: Unsupported value: "Near": '
                'supported values: "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"'),
            ],
            "conditions": [],
        },
    ]  # fmt: skip


def test_details_of_no_terms_and_of_the_profile_s_affinity():
    world = World([SSD])

    assert details(make(world), world.cycle(wants(required())), world.view()) == [
        {"term": "", "failed": ["no term has any condition"], "conditions": []}
    ]
    assert details(make(world, required(name("NotIn", "ssd-1"))), world.cycle(pod()), world.view()) == [
        {
            "term": "metadata.name!=ssd-1",
            "failed": ["metadata.name!=ssd-1 (is ssd-1)"],
            "conditions": [{"condition": "metadata.name!=ssd-1", "actual": "ssd-1", "isName": True}],
        }
    ]


def test_score_details_name_the_wishes_that_hold():
    world = World([SSD])
    plugin = make(world)
    cycle = world.cycle(wants(preferred((5, label("disk", "In", "ssd", "nvme")), (7, label("gpu", "Exists")))))
    assert plugin.pre_score(cycle, world.view()) is not PreScoreResult.SKIP_SHAPE
    assert plugin.score_details(cycle, 0) == ["matches preferred term disk in (nvme,ssd): weight 5"]
