"""What holds of every change of a cluster with orphans, volumes, autoscalers, quotas and budgets, however they mix."""

import copy
from collections import Counter
from typing import Any

from hypothesis import event, given
from hypothesis import strategies as st

from kplan.course.carried_out import CarriedOut
from kplan.course.simulation.owners import Owner
from tests.course.simulation.test_owners import orphan, replica_set
from tests.course.simulation.test_set_claims import claim, claims_of, database, pod_of, storage_class, volume
from tests.objects import Object, budget, daemon_set, deployment, node, planner_of, quota, running, scaler
from tests.recorded import examples

NODES = ["n0", "n1", "n2"]
CPUS = 4000
_ON = st.sampled_from([*NODES, ""])


@st.composite
def clusters_at_rest(draw: st.DrawFn) -> list[Object]:
    """Draw a cluster at rest: a deployment, a database with local volumes, orphans, and what bounds them."""
    objects = [*(node(name, str(CPUS // 1000)) for name in NODES), storage_class("local")]
    objects += running(deployment("web", draw(st.integers(0, 4))), NODES)
    n_databases = draw(st.integers(0, 3))
    policy = {"whenDeleted": "Retain", "whenScaled": draw(st.sampled_from(["Retain", "Delete"]))}
    order = draw(st.sampled_from(["OrderedReady", "Parallel"]))
    workload = database(n_databases, persistentVolumeClaimRetentionPolicy=policy, podManagementPolicy=order)
    objects += [workload, *(pod_of(workload, number, NODES[number]) for number in range(n_databases))]
    for number in range(n_databases):
        objects.append(volume(f"pv{number}", NODES[number], bound_to=f"data-db-{number}"))
        objects.append(claim(f"data-db-{number}", f"pv{number}"))
    objects += [
        volume(f"spare{number}", on) for number, on in enumerate(draw(st.lists(st.sampled_from(NODES), max_size=2)))
    ]
    for number, on in enumerate(draw(st.lists(_ON, max_size=4))):
        objects.append(orphan(f"lost-{number}", on, app="job"))
    if draw(st.booleans()):
        objects.append(budget("web", minAvailable=draw(st.integers(0, 3))))
    if draw(st.booleans()):
        objects.append(quota("few", None, pods=str(draw(st.integers(3, 14)))))
    if draw(st.booleans()):
        lowest = draw(st.integers(1, 3))
        kind, name = draw(st.sampled_from([("Deployment", "web"), ("StatefulSet", "db")]))
        objects.append(scaler(name, lowest, lowest + draw(st.integers(0, 2)), kind))
    return objects


@st.composite
def new_versions(draw: st.DrawFn) -> list[Object]:
    """Draw new versions of the workloads, and a replica set that takes the orphans over."""
    image = st.sampled_from(["app:1", "app:2"])
    web = deployment("web", draw(st.integers(0, 6)), draw(image))
    base = database(draw(st.integers(0, 4)), image=draw(image), cpu=draw(st.sampled_from(["500m", "3"])))
    agent = daemon_set("agent", draw(image))
    taking = replica_set("job", draw(st.integers(0, 5)))
    return draw(st.lists(st.sampled_from([web, base, agent, taking]), min_size=1, max_size=3, unique_by=id))


def _changed(objects: list[Object], manifests: list[Object], how: str) -> CarriedOut:
    planner = planner_of(copy.deepcopy(objects))
    if how == "apply":
        return planner.roll_out(copy.deepcopy(manifests))
    if how == "delete":
        return planner.changed(without=["node/n1"], settle=True).roll_out([])
    return planner.drain(["n1"], one_by_one=how == "one by one", lost=how == "lost")


def _scale_of(objects: list[Object], workload: str) -> tuple[int, int] | None:
    kind, name = workload.split("/")
    for found in objects:
        target = found.get("spec", {}).get("scaleTargetRef")
        if target is not None and (target["kind"], target["name"]) == (kind, name):
            return found["spec"]["minReplicas"], found["spec"]["maxReplicas"]
    return None


@examples(40)
@given(
    objects=clusters_at_rest(),
    manifests=new_versions(),
    how=st.sampled_from(["apply", "apply", "apply", "drain", "one by one", "lost", "delete"]),
)
def test_controllers_and_the_scheduler_keep_their_rules(
    objects: list[Object], manifests: list[Object], how: str
) -> None:
    change = _changed(objects, manifests, how)
    event(how)
    simulation = change.simulation

    assert not simulation.circle
    _no_node_is_overcommitted(change)
    _volumes_are_used_once_and_where_they_are(objects, change)
    _quotas_are_kept(objects, change)
    for key in simulation.workloads.keys():  # noqa: SIM118 - not a mapping
        owner = simulation.workloads.owner(key)
        if owner is not None:
            _has_what_it_wants(change, owner, is_refused_before=how == "delete" and _is_full(objects, change))
    if how == "apply":
        _bounds_are_kept(objects, manifests, change)


def _no_node_is_overcommitted(change: CarriedOut) -> None:
    infos = change.simulation.session.cluster.pods.infos
    used: Counter[str] = Counter()
    for row, pod in change.simulation.pods.items():
        if pod.node:
            used[pod.node] += _millis(infos[row])
    assert all(amount <= CPUS for amount in used.values())


def _millis(info: Any) -> int:
    container = info.pod.spec.containers[0]
    text = str(container.resources.requests["cpu"])
    return int(text[:-1]) if text.endswith("m") else int(float(text) * 1000)


def _node_of(written: Object) -> str:
    terms = written["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    place: str = terms[0]["matchExpressions"][0]["values"][0]
    return place


def _volumes_are_used_once_and_where_they_are(objects: list[Object], change: CarriedOut) -> None:
    claims = claims_of(change)
    bound = [name for name in claims.values() if name]
    assert len(bound) == len(set(bound))
    place_of = {found["metadata"]["name"]: _node_of(found) for found in objects if found["kind"] == "PersistentVolume"}
    for pod in change.after:
        if pod.workload == "StatefulSet/default/db" and pod.node is not None:
            assert pod.node == place_of[claims[f"data-{pod.name}"] or ""]


def _most_pods(objects: list[Object]) -> int | None:
    return next((int(found["spec"]["hard"]["pods"]) for found in objects if found["kind"] == "ResourceQuota"), None)


def _is_full(objects: list[Object], change: CarriedOut) -> bool:
    """The pods of a deleted node are created, or refused, before the question that is looked at here."""
    hard = _most_pods(objects)
    return hard is not None and len(change.after) >= hard


def _quotas_are_kept(objects: list[Object], change: CarriedOut) -> None:
    hard = _most_pods(objects)
    before = sum(found["kind"] == "Pod" for found in objects)
    if hard is not None:
        assert len(change.after) <= max(hard, before)


def _has_what_it_wants(change: CarriedOut, owner: Owner, *, is_refused_before: bool) -> None:
    """A workload has as many pods as it wants, unless its pods are refused, or it waits for one of them."""
    pods = list(owner.pods.values())
    is_held_up = bool(owner.refusal) or is_refused_before or any(not pod.node for pod in pods)
    is_held_up |= owner.ref.kind != "ReplicaSet" and bool(owner.terminating)  # on a lost node
    assert len(pods) == owner.desired or is_held_up, (owner.ref.key, len(pods), owner.desired)
    if owner.ref.kind == "ReplicaSet" and owner.selector is not None:
        infos = change.simulation.session.cluster.pods.infos
        free = [
            pod.name
            for row, pod in change.simulation.pods.items()
            if change.simulation.owner(pod) is None and owner.selector.matches(infos[row].labels)
        ]
        assert not free


def _bounds_are_kept(objects: list[Object], manifests: list[Object], change: CarriedOut) -> None:
    for manifest in manifests:
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        bounds = _scale_of(objects, f"{kind}/{name}")
        state = change.simulation.workloads.find(f"{kind}/default/{name}")
        if bounds is not None and state is not None and manifest["spec"]["replicas"]:
            assert bounds[0] <= state.wanted.replicas <= bounds[1]
