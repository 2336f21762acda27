import threading
from pathlib import Path

import pytest

from kplan.errors import ApiError, ForbiddenError
from kplan.facts import MissingKind
from kplan.live import RESOURCES, reader
from kplan.live.collect import collect_snapshot
from kplan.snapshot import load_snapshot
from kplan.snapshot.own_file import save_snapshot

from .conftest import Start
from .server import READER_TOKEN, Answer, Cluster, Fault, Request, recordings, replay, status
from .test_discovery import BY_NAME, OPTIONAL

LISTS = [resource.kind.resource for resource in RESOURCES if resource.kind.resource in recordings()]


def recorded_objects() -> list[dict[str, object]]:
    """Every recorded object, with apiVersion and kind, as files have them."""
    objects = []
    for plural in LISTS:
        body = recordings()[plural]["response"]["body"]
        kind = {"apiVersion": body["apiVersion"], "kind": body["kind"].removesuffix("List")}
        objects += [kind | item for item in body["items"]]
    return [item for item in objects if item.get("status", {}).get("phase") not in {"Succeeded", "Failed"}]


@pytest.mark.parametrize("page_size", [1, 7, 500])
def test_a_live_cluster_is_the_same_snapshot_as_its_objects_in_a_file_in_pages_of_any_size(
    start: Start, page_size: int
) -> None:
    snapshot = collect_snapshot(start(page_size=page_size)[1])
    assert snapshot.digest == load_snapshot(recorded_objects()).digest
    assert (snapshot.source, snapshot.server_version) == ("live:demo", "v1.36.2")
    assert snapshot.taken_at is not None
    assert (snapshot.warnings, snapshot.missing) == ((), ())


_CONFIG_MAPS = ("status", "priority-expander")
"""The only config maps that are read, one by one."""


def test_only_get_and_only_what_scheduling_reads(start: Start) -> None:
    api, options = start(page_size=20)
    collect_snapshot(options)
    assert {request.method for request in api.requests} == {"GET"}
    assert not {path for path in api.paths if "secret" in path or "event" in path}
    config_maps = "/api/v1/namespaces/kube-system/configmaps/cluster-autoscaler-"
    assert {path for path in api.paths if "configmap" in path} == {f"{config_maps}{name}" for name in _CONFIG_MAPS}


def test_terminated_pods_stay_on_the_server(start: Start) -> None:
    api, options = start()
    snapshot = collect_snapshot(options)
    (pods,) = [request for request in api.requests if request.path == "/api/v1/pods"]
    assert pods.query["fieldSelector"] == "status.phase!=Succeeded,status.phase!=Failed"
    assert {pod.status.phase for pod in snapshot.pods} <= {"Running", "Pending", "Unknown"}


def test_progress_is_told_for_every_kind(start: Start) -> None:
    _, options = start(page_size=20)
    told: dict[str, list[tuple[int, int | None]]] = {}
    collect_snapshot(options, lambda resource, seen, total: told.setdefault(resource, []).append((seen, total)))
    assert set(told) == BY_NAME.keys() - OPTIONAL.keys()
    assert told["pods"] == [(20, None), (40, None), (60, None), (82, 82)]


def test_a_forbidden_kind_is_missing_and_its_plugins_named(start: Start) -> None:
    cluster = Cluster(forbidden=frozenset({"poddisruptionbudgets", "jobs"}))
    _, options = start(cluster, token=READER_TOKEN)

    snapshot = collect_snapshot(options)

    assert snapshot.missing == (
        MissingKind("jobs", "forbidden", ()),
        MissingKind("poddisruptionbudgets", "forbidden", ("DefaultPreemption",)),
    )
    partly = "not all could be read (forbidden)"
    assert [(each.code, each.object, each.message) for each in snapshot.warnings] == [
        ("MissingKind", "jobs", partly),
        ("MissingKind", "poddisruptionbudgets", f"{partly}; blind without them: DefaultPreemption"),
    ]
    assert snapshot.pod_disruption_budgets == ()


@pytest.mark.parametrize("resource", ["nodes", "pods"])
def test_without_nodes_or_pods_there_is_no_snapshot(start: Start, resource: str) -> None:
    _, options = start(Cluster(forbidden=frozenset({resource})), token=READER_TOKEN)
    with pytest.raises(ForbiddenError, match=f'User "demo-reader" cannot list resource "{resource}"') as caught:
        collect_snapshot(options)
    assert "kplan snapshot rbac" in caught.value.hint
    assert "--namespaces" in caught.value.hint


def test_what_is_missing_stays_missing_in_the_file(start: Start, tmp_path: Path) -> None:
    _, options = start(Cluster(forbidden=frozenset({"csinodes"})), token=READER_TOKEN)
    snapshot = collect_snapshot(options)
    save_snapshot(snapshot, tmp_path / "cluster.json")
    loaded = load_snapshot(tmp_path / "cluster.json")
    assert (loaded.missing, loaded.warnings, loaded.digest) == (snapshot.missing, snapshot.warnings, snapshot.digest)
    assert (loaded.server_version, loaded.taken_at) == (snapshot.server_version, snapshot.taken_at)


def test_namespaces_narrow_the_namespaced_kinds_and_say_so(start: Start) -> None:
    api, options = start(namespaces=("shop", "data"))
    snapshot = collect_snapshot(options)
    assert {pod.metadata.namespace for pod in snapshot.pods} == {"shop", "data"}
    assert len(snapshot.nodes) == 12
    assert snapshot.missing[0].reason == "read in shop, data only"
    assert "/api/v1/pods" not in api.paths
    assert "/apis/policy/v1/namespaces/data/poddisruptionbudgets" in api.paths


def test_namespaced_users_without_any_other_right_still_get_their_namespaces(start: Start) -> None:
    cluster = Cluster(forbidden=frozenset({"namespaces", "services"}))
    _, options = start(cluster, token=READER_TOKEN, namespaces=("shop", "data"))
    snapshot = collect_snapshot(options)
    assert [namespace.metadata.name for namespace in snapshot.namespaces] == ["shop", "data"]
    assert (
        MissingKind("services", "forbidden in shop, data", ("PodTopologySpread",), ("shop", "data")) in snapshot.missing
    )


def test_groups_that_the_server_does_not_have_are_not_missing(start: Start) -> None:
    api, options = start(Cluster(groups_not_served=frozenset({"resource.k8s.io"})))
    snapshot = collect_snapshot(options)
    assert snapshot.resource_slices == ()
    assert snapshot.missing == ()
    assert not [path for path in api.paths if path.startswith("/apis/resource.k8s.io")]


def test_a_group_that_goes_away_meanwhile_is_not_missing_either(start: Start) -> None:
    def gone(request: Request) -> Answer | None:
        return replay("error-404-unknown-group") if request.path.endswith("/resourceslices") else None

    _, options = start(Cluster(fault=gone))

    assert collect_snapshot(options).missing == ()


def once(path: str, answer: Answer, *, when: str = "") -> Fault:
    """Answer the first request for a path, the first with a continue token if `when` says so, with this instead."""
    lock, done = threading.Lock(), []

    def fault(request: Request) -> Answer | None:
        with lock:
            if request.path != path or done or (when and when not in request.query):
                return None
            done.append(request)
            return answer

    return fault


def test_a_list_that_expires_is_finished_and_said_to_be_of_two_moments(start: Start) -> None:
    expired = replay("error-410-expired-continue")
    _, options = start(Cluster(fault=once("/api/v1/pods", expired, when="continue")), page_size=20)
    snapshot = collect_snapshot(options)
    assert snapshot.digest == load_snapshot(recorded_objects()).digest
    assert [(each.code, each.object) for each in snapshot.warnings] == [("InconsistentList", "pods")]


def test_an_answer_that_is_cut_off_is_asked_for_again(start: Start) -> None:
    _, options = start(Cluster(fault=once("/api/v1/nodes", Answer(200, b'{"items": [', cut_after=4))))
    assert len(collect_snapshot(options).nodes) == 12


def test_a_server_that_answers_500_for_ever_is_asked_so_many_times(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(request: Request) -> Answer | None:
        return status(500, "InternalError", "etcd is away") if request.path == "/api/v1/nodes" else None

    api, options = start(Cluster(fault=broken))
    monkeypatch.setattr(reader, "FIRST_WAIT_SECONDS", 0.001)
    with pytest.raises(ApiError, match=rf"etcd is away \(500, asked {reader.MAX_ATTEMPTS} times\)"):
        collect_snapshot(options)
    assert api.paths.count("/api/v1/nodes") == reader.MAX_ATTEMPTS
