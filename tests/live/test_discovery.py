import json
from collections.abc import Mapping

import pytest

from kplan.errors import ApiError
from kplan.live import RESOURCES
from kplan.live.collect import discover, read_version
from kplan.live.reader import Reader, Response

from .server import Answer, Cluster, Fault, Request, replay, status

BY_NAME = {resource.kind.resource: resource for resource in RESOURCES}
DYNAMIC = ("resourceclaims", "resourceclaimtemplates", "resourceslices", "deviceclasses")
#: What a server serves with Karpenter or Cluster API, or with feature gates only that are off by default.
OPTIONAL = {
    name: None
    for name, resource in BY_NAME.items()
    if resource.kind.group.startswith(("karpenter.", "cluster.x-k8s.io", "autoscaling.k8s.io", "autoscaling.x-k8s.io"))
    or name in ("devicetaintrules", "podgroups")
}


class Direct:
    """Asks a cluster without a network between."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.paths: list[str] = []

    def get(self, path: str, query: Mapping[str, str] | None = None, *, accept: str = "application/json") -> Response:
        self.paths.append(path)
        headers = [("Authorization", "Bearer admin-token"), ("Accept", accept)]
        answer = self.cluster.answer(Request("GET", path, dict(query or {}), headers))
        return Response(answer.status, answer.headers, answer.body)


#: What a server of this age serves each resource in.
NEWEST = {**dict.fromkeys(BY_NAME, "v1"), "horizontalpodautoscalers": "v2", **OPTIONAL}


def versions(cluster: Cluster) -> tuple[dict[str, str | None], list[str]]:
    direct = Direct(cluster)
    best = discover(Reader(direct, sleep=lambda _seconds: None), RESOURCES)
    return {resource.kind.resource: best.get(resource) for resource in RESOURCES}, direct.paths


def test_a_recent_server_is_asked_twice_and_the_older_form_tells_the_same() -> None:
    found, paths = versions(Cluster())
    older, older_paths = versions(Cluster(aggregated_discovery=False))
    assert found == older == NEWEST
    assert paths == ["/api", "/apis"]
    assert "/apis/resource.k8s.io/v1" in older_paths


@pytest.mark.parametrize("aggregated", [True, False])
def test_a_group_that_is_not_served_is_left_out(aggregated: bool) -> None:
    cluster = Cluster(aggregated_discovery=aggregated, groups_not_served=frozenset({"resource.k8s.io"}))
    found, _ = versions(cluster)
    assert {name for name, version in found.items() if version is None} == {*DYNAMIC, *OPTIONAL}


def only_versions(*names: str) -> Fault:
    """Let the server have these versions of resource.k8s.io."""

    def fault(request: Request) -> Answer | None:
        if request.path != "/apis":
            return None
        body = json.loads(replay("apis-aggregated").body)
        for item in body["items"]:
            if item["metadata"]["name"] == "resource.k8s.io":
                served = item["versions"][0]
                item["versions"] = [served | {"version": name} for name in names]
        return Answer(200, json.dumps(body).encode())

    return fault


@pytest.mark.parametrize(
    ("served", "chosen"),
    [(("v1beta1",), "v1beta1"), (("v1beta1", "v1beta2"), "v1beta2"), (("v1beta2", "v1"), "v1"), (("v1alpha3",), None)],
)
def test_the_newest_version_that_can_be_read_is_asked_for(served: tuple[str, ...], chosen: str | None) -> None:
    found, _ = versions(Cluster(fault=only_versions(*served)))
    assert {found[name] for name in DYNAMIC} == {chosen}


def test_a_server_that_does_not_tell_is_taken_to_serve_all() -> None:
    forbidden = Cluster(fault=lambda request: status(403, "Forbidden", "no") if request.path == "/api" else None)
    found, _ = versions(forbidden)
    assert found == NEWEST | {name: BY_NAME[name].kind.versions[0] for name in OPTIONAL}


def test_the_version_of_the_server_is_read_unless_it_keeps_that_to_itself() -> None:
    silent = Cluster(fault=lambda _request: status(403, "Forbidden", "no"))
    assert read_version(Reader(Direct(Cluster(git_version="v1.34.1+k3s1")))) == "v1.34.1+k3s1"
    assert read_version(Reader(Direct(silent))) == ""


def test_something_that_is_no_api_server_is_told_apart() -> None:
    direct = Direct(Cluster(fault=lambda _request: Answer(200, b"<html>Welcome</html>")))
    with pytest.raises(ApiError, match="not an answer of an API server") as caught:
        read_version(Reader(direct))
    assert "server address" in caught.value.hint
