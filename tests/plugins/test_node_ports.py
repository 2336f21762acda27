import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kplan.api.core import Pod
from kplan.api.decode import convert
from kplan.engine.view import ChangingView
from kplan.plugins.node_ports import HostPort, NodePorts, Ports
from kplan.rules.pod_info import PodInfo

from .asking import details, filtered
from .worlds import PORTS, World, few, host_port, node, pod


def make(handle):
    return NodePorts(None, handle)


SOME_PORTS = st.lists(PORTS, max_size=2)
PODS = SOME_PORTS.map(lambda ports: pod(ports=ports))


@st.composite
def clusters(draw):
    names = [f"n{index}" for index in range(draw(st.integers(1, 4)))]
    return World([node(each) for each in names], {each: draw(st.lists(PODS, max_size=3)) for each in names})


@few
@given(st.data(), clusters(), PODS)
def test_one_plugin_follows_pods_as_they_come_and_go(data, world, incoming):
    plugin, cycle = make(world.handle), world.cycle(incoming)
    filtered(plugin, cycle, world.view())
    for _ in range(data.draw(st.integers(1, 4))):
        row = data.draw(st.sampled_from(range(len(world.nodes))))
        on_node = world.cluster.pods_on[row]
        if on_node and data.draw(st.booleans()):
            world.cluster.unbind(data.draw(st.sampled_from(on_node)))
        else:
            world.cluster.bind(world.cluster.add_pod(PodInfo(convert(data.draw(PODS), Pod))), row)

        assert filtered(plugin, cycle, world.view()) == filtered(make(world.handle), cycle, world.view())


def test_a_port_is_free_again_when_its_pod_is_removed_put_back_and_removed_again():
    world = World([node()], {"node": [pod(ports=[host_port(80)])]})
    plugin, cycle, only = make(world.handle), world.cycle(pod(ports=[host_port(80)])), np.asarray([0])
    view = ChangingView(world.cluster, rows=only, positions=only, pods=only)
    is_free = [filtered(plugin, cycle, view) == [None]]
    for sign in (1, -1):
        view.change(only, sign)
        is_free.append(filtered(plugin, cycle, view) == [None])
    assert is_free == [True, False, True]


def test_details_name_the_ports_and_at_most_five_pods_in_the_way():
    world = World([node()], {"node": [pod(ports=[host_port(80, ip=f"10.0.0.{index}")]) for index in range(7)]})
    incoming = pod(ports=[host_port(80), host_port(443)])

    assert details(make(world.handle), world.cycle(incoming), world.view()) == [
        {
            "hostIP": "0.0.0.0",
            "protocol": "TCP",
            "hostPort": 80,
            "pods": [f"default/node-{index}" for index in range(5)],
            "andMore": 2,
        }
    ]


PORTS = st.tuples(
    st.sampled_from(["0.0.0.0", "10.0.0.1", "10.0.0.2"]), st.sampled_from(["TCP", "UDP"]), st.integers(1, 3)
)


@given(st.lists(PORTS, max_size=5), PORTS)
def test_a_look_up_among_ports_says_what_comparing_with_all_says(used: list[HostPort], wanted: HostPort) -> None:
    def conflicts(port: HostPort) -> bool:
        return port[1:] == wanted[1:] and (port[0] == wanted[0] or "0.0.0.0" in (port[0], wanted[0]))

    assert Ports(used).conflict_with(wanted) is any(map(conflicts, used))
