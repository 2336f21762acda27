"""Replicas that are placed without a cycle each land where their cycles would put them, one after another."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kplan.api.core import Pod
from kplan.api.decode import convert
from kplan.capacity import together
from kplan.capacity.together import place_replicas
from kplan.cluster.base import Base
from kplan.framework.cycle import schedule_pod
from kplan.rules.pod_info import PodInfo
from kplan.snapshot.load import load_snapshot
from tests.objects import head
from tests.recorded import examples

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"


def node(number, zone, cpu, pods, *, host=True):
    labels = {HOST: f"n{number}"} if host else {}
    if zone:
        labels[ZONE] = zone
    amounts = {"cpu": str(cpu), "memory": "8Gi", "pods": str(pods)}
    return head("Node", name=f"n{number}", labels=labels) | {"status": {"allocatable": amounts, "capacity": amounts}}


def pod(name, *, on="", app="web", cpu="300m", constraints=(), **spec):
    resources = {"requests": {"cpu": cpu, "memory": "256Mi"}}
    return head("Pod", name=name, namespace="default", uid=name, labels={"app": app}) | {
        "spec": {
            "schedulerName": "default-scheduler",
            "containers": [{"name": "main", "image": "app", "resources": resources}],
            "topologySpreadConstraints": list(constraints),
            **({"nodeName": on} if on else {}),
            **spec,
        },
        "status": {"phase": "Running" if on else "Pending"},
    }


def soft(key, skew=1, app="web", **more):
    selector = {"matchLabels": {"app": app}}
    return {
        "topologyKey": key,
        "maxSkew": skew,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": selector,
        **more,
    }


CONSTRAINTS = st.lists(
    st.builds(
        soft,
        st.sampled_from([ZONE, HOST]),
        st.integers(1, 4),
        st.sampled_from(["web", "web", "other"]),
        nodeTaintsPolicy=st.sampled_from(["Ignore", "Honor"]),
    ),
    max_size=3,
    unique_by=lambda constraint: constraint["topologyKey"],
)
NODES = st.lists(
    st.tuples(st.sampled_from(["a", "b", "c", ""]), st.integers(1, 6), st.integers(2, 30), st.booleans()),
    min_size=1,
    max_size=9,
)


def session_of(objects, ties):
    return Base(load_snapshot(objects), ties=ties).session.fork()


def course_of_cycles(session, info, limit):
    course = []
    while limit is None or len(course) < limit:
        result = schedule_pod(session, session.cluster.add_pod(info))
        if result.row is None:
            break
        session.bind(result.pod, result.row)
        course.append(result.row)
    return course


@examples(150)
@given(
    NODES,
    st.lists(st.tuples(st.integers(0, 8), st.sampled_from(["web", "other"])), max_size=10),
    CONSTRAINTS,
    st.booleans(),
    st.sampled_from(["scheduler", "name"]),
    st.one_of(st.none(), st.integers(1, 60)),
)
def test_replicas_land_where_their_cycles_put_them(shapes, running, constraints, serves, ties, limit):
    objects = [
        node(number, zone, cpu, pods, host=host or number % 2) for number, (zone, cpu, pods, host) in enumerate(shapes)
    ]
    objects[0]["spec"] = {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}
    objects += [
        pod(f"r{number}", on=f"n{where % len(shapes)}", app=app, cpu="100m")
        for number, (where, app) in enumerate(running)
    ]
    if serves:
        objects.append(head("Service", name="web", namespace="default") | {"spec": {"selector": {"app": "web"}}})
    info = PodInfo(convert(pod("new", constraints=constraints), Pod))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(together, "FEW", 0)
        made = session_of(objects, ties)
        assert place_replicas(made, info, limit) == course_of_cycles(session_of(objects, ties), info, limit)
    expected = session_of(objects, ties)
    course_of_cycles(expected, info, limit)
    assert made.cluster.requested("cpu").tolist() == expected.cluster.requested("cpu").tolist()
    assert [len(pods) for pods in made.cluster.pods_on] == [len(pods) for pods in expected.cluster.pods_on]


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(
            {"constraints": [{**soft(ZONE), "whenUnsatisfiable": "DoNotSchedule"}]}, id="a filter that looks beyond"
        ),
        pytest.param(
            {
                "affinity": {
                    "podAntiAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution": [
                            {
                                "weight": 1,
                                "podAffinityTerm": {
                                    "topologyKey": HOST,
                                    "labelSelector": {"matchLabels": {"app": "web"}},
                                },
                            }
                        ]
                    }
                }
            },
            id="replicas that repel each other",
        ),
        pytest.param({"schedulerName": "another"}, id="no such profile"),
    ],
)
def test_other_replicas_need_a_cycle_each_and_the_session_stays_as_it_is(spec):
    made = session_of([node(0, "a", 4, 9), node(1, "b", 4, 9)], "scheduler")
    info = PodInfo(convert(pod("new", **spec), Pod))
    n_pods = len(made.cluster.pods)
    assert place_replicas(made, info, None) is None
    assert len(made.cluster.pods) == n_pods
    assert not made.cluster.log


def test_a_few_replicas_are_not_worth_the_preparation():
    made = session_of([node(0, "a", 4, 9)], "scheduler")
    assert place_replicas(made, PodInfo(convert(pod("new"), Pod)), together.FEW - 1) is None


def test_too_many_groups_of_nodes_need_a_cycle_for_each_replica(monkeypatch):
    monkeypatch.setattr(together, "MAX_GROUPS", 1)
    made = session_of([node(0, "a", 4, 9), node(1, "b", 4, 9)], "scheduler")
    assert place_replicas(made, PodInfo(convert(pod("new", constraints=[soft(ZONE)]), Pod)), None) is None
    assert not made.cluster.log
