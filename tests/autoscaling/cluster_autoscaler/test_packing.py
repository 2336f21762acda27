"""Packing by arithmetic puts pods where a search from node to node puts them."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec import convert

from kplan.api.core import Node
from kplan.autoscaling.cluster_autoscaler.groups import NodeGroup
from kplan.autoscaling.cluster_autoscaler.options import Options
from kplan.autoscaling.cluster_autoscaler.scratch import NewNodes, wanted_by
from kplan.autoscaling.cluster_autoscaler.templates import Template, TemplateMaker, are_similar


class Searched:
    """The same, pod by pod and node by node."""

    def __init__(self, free: dict[str, int], n_nodes: int, n_before: int) -> None:
        self.nodes = [dict(free) for _ in range(n_nodes)]
        self.n_before = n_before

    def spread(self, wanted: dict[str, int], n: int, last: int) -> tuple[list[int], int]:
        chosen: list[int] = []
        n_listed = self.n_before + len(self.nodes)
        for _ in range(n):
            for step in range(n_listed):
                index = (last + 1 + step) % n_listed
                node = index - self.n_before
                if node >= 0 and all(self.nodes[node][name] >= amount for name, amount in wanted.items()):
                    break
            else:
                break
            for name, amount in wanted.items():
                self.nodes[node][name] -= amount
            chosen.append(node)
            last = index
        return chosen, last


@given(
    free=st.fixed_dictionaries({"cpu": st.integers(0, 12), "memory": st.integers(0, 12), "pods": st.integers(0, 6)}),
    n_nodes=st.integers(0, 5),
    n_before=st.integers(0, 3),
    last=st.integers(0, 9),
    pods=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(1, 9)), max_size=5),
)
def test_pods_go_to_the_nodes_in_turn(
    free: dict[str, int], n_nodes: int, n_before: int, last: int, pods: list[tuple[int, int, int]]
) -> None:
    nodes, searched = NewNodes(free, n_before, n_nodes), Searched(free, n_nodes, n_before)
    nodes.n_nodes = n_nodes
    for cpu, memory, n in pods:
        wanted = wanted_by({"cpu": cpu, "memory": memory})
        expected = searched.spread(dict(wanted), n, last)
        assert nodes.spread(wanted, n, last) == expected
        last = expected[1]
    assert not n_nodes or nodes.fill_last(wanted_by({}), 9) == searched.nodes[-1]["pods"]


def test_groups_are_similar_whose_nodes_have_nearly_as_much_for_pods() -> None:
    def template(**allocatable: str) -> Template:
        return Template(convert({"status": {"capacity": {"cpu": "4"}, "allocatable": allocatable}}, Node), ())

    others = (template(cpu="3900m"), template(cpu="3700m"), template(cpu="4", extra="0"))
    assert [are_similar(template(cpu="4"), other, Options()) for other in others] == [True, False, False]


def test_each_loop_makes_its_templates_anew_so_that_places_on_nodes_to_come_are_not_remembered() -> None:
    group = NodeGroup(name="g", least=0, most=2, target=0, template=Node(), options=Options())
    maker = TemplateMaker(Options(), ())
    assert [maker.templates([], [], [group], now)["g"].made_at for now in (1, 2)] == [1, 2]
    maker.remembered["g"] = (Template(Node(), (), made_at=1), 1)
    assert maker.templates([], [], [group], 3)["g"].made_at == 1
