import pytest

from kplan.api.decode import convert
from kplan.config.args import NodeAffinityArgs
from kplan.framework.interface import PreScoreResult, StatusCode
from kplan.framework.results import PluginError
from kplan.plugins.node_affinity import NodeAffinity

from .asking import details
from .worlds import World, node, pod


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
