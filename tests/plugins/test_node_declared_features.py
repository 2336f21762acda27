import pytest

from kplan.plugins.node_declared_features import FEATURES, NodeDeclaredFeatures, known_features

from .asking import details, filtered
from .worlds import World, node, pod

REJECTED = ("UnschedulableAndUnresolvable", ["node(s) didn't match Pod's required features"])
RESTART = "RestartAllContainersOnContainerExits"
USERS = "UserNamespacesHostNetworkSupport"
RESTARTS_ALL = {"restartPolicyRules": [{"action": "Restart"}, {"action": "RestartAllContainers"}]}


def restarting(**spec):
    return pod(initContainers=[RESTARTS_ALL], **spec)


@pytest.mark.parametrize(
    ("incoming", "expected"),
    [
        pytest.param(pod(), [None, None, None], id="most pods need nothing"),
        pytest.param(restarting(), [REJECTED, None, None], id="restarting all containers"),
        pytest.param(
            restarting(hostNetwork=True, hostUsers=False),
            [REJECTED, REJECTED, None],
            id="and users of its own on the host",
        ),
        pytest.param(pod(hostNetwork=True), [None, None, None], id="the host's network with the host's users"),
        pytest.param(pod(hostNetwork=True, hostUsers=True), [None, None, None], id="or with that said"),
        pytest.param(pod(hostUsers=False), [None, None, None], id="users of its own without the host's network"),
    ],
)
def test_nodes_must_declare_what_the_pod_needs(incoming, expected):
    world = World([node("a"), node("b", features=["Other", RESTART]), node("c", features=[RESTART, USERS])])
    plugin, cycle = NodeDeclaredFeatures(None, world.handle), world.cycle(incoming)
    assert filtered(plugin, cycle, world.view()) == expected
    assert filtered(plugin, cycle, world.view([2, 0])) == [expected[2], expected[0]]


@pytest.mark.parametrize(
    ("declared", "found"),
    [
        pytest.param([], set(), id="nothing"),
        pytest.param(list(FEATURES), set(FEATURES), id="all that there are"),
        pytest.param(["A", RESTART, "Unknown", USERS, "Z"], {RESTART, USERS}, id="unknown ones are passed over"),
        pytest.param([USERS, RESTART], {USERS}, id="what stands too late in an unsorted list goes unseen"),
    ],
)
def test_known_features(declared, found):
    assert known_features(declared) == found


def test_features_are_listed_by_name():
    assert list(FEATURES) == sorted(FEATURES)


def test_details_name_the_features_that_are_missing():
    world = World([node(features=[RESTART])])
    cycle = world.cycle(restarting(hostNetwork=True, hostUsers=False))
    assert details(NodeDeclaredFeatures(None, world.handle), cycle, world.view()) == [{"feature": USERS}]
