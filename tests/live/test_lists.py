import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

from kplan.api.core import Node
from kplan.api.workloads import ControllerRevision
from kplan.errors import ApiError
from kplan.live.lists import ListedObjects, decode_object, page_decoder, read_list
from kplan.live.reader import Reader, Response
from kplan.live.resources import RESOURCES
from kplan.reading.files import MAX_OBJECT

from .server import Cluster, Request, cut_page, recordings, replay

PODS = next(resource for resource in RESOURCES if resource.kind.resource == "pods")
ALL_PODS = recordings()["pods"]["response"]["body"]["items"]
NAMES = sorted(f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in ALL_PODS)


class Pages:
    """A transport that serves the recorded pods, with statuses in between that the test asks for."""

    def __init__(self, *interruptions: tuple[int, str]) -> None:
        self.interruptions = dict(interruptions)
        self.queries: list[dict[str, str]] = []

    def get(self, path: str, query: Mapping[str, str] | None = None, *, accept: str = "application/json") -> Response:
        self.queries.append(dict(query or {}))
        if name := self.interruptions.get(len(self.queries)):
            answer = replay("error-410-expired-continue" if name == "token" else "error-410-old-rv-exact")
            return Response(answer.status, {}, answer.body)
        request = Request("GET", path, dict(query or {}), [("Authorization", "Bearer admin-token")])
        answer = Cluster().answer(request)
        return Response(answer.status, {}, answer.body)


def read(pages: Pages, page_size: int = 20, selector: str = "") -> tuple[ListedObjects, list[tuple[int, int | None]]]:
    reports: list[tuple[int, int | None]] = []
    with ThreadPoolExecutor(1) as decoder:
        listed = read_list(
            Reader(pages),
            "/api/v1/pods",
            selector=selector,
            page_size=page_size,
            decode=page_decoder(PODS.kind.type, "/api/v1/pods"),
            decoder=decoder,
            progress=lambda seen, total: reports.append((seen, total)),
        )
    return listed, reports


def names(listed: ListedObjects) -> list[str]:
    return [f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in listed.objects]


def test_a_list_is_read_page_by_page_to_its_end() -> None:
    pages = Pages()

    listed, reports = read(pages)

    assert names(listed) == NAMES
    assert listed.notes == ()
    assert [query["limit"] for query in pages.queries] == ["20"] * 5
    assert reports == [(20, 84), (40, 84), (60, 84), (84, 84)]


def test_a_selector_goes_with_every_page_and_hides_the_total() -> None:
    pages = Pages()

    listed, reports = read(pages, selector=PODS.selector)

    assert {query["fieldSelector"] for query in pages.queries} == {"status.phase!=Succeeded,status.phase!=Failed"}
    assert len(listed.objects) == 82
    assert [total for _, total in reports] == [None, None, None, 82]


def test_an_expired_list_goes_on_with_the_token_that_the_server_offers() -> None:
    """The recorded token stands right behind the first page."""
    pages = Pages((2, "token"))

    listed, _ = read(pages)

    assert names(listed) == NAMES
    assert listed.notes == ("it changed while it was being read: the rest is of a later moment",)
    assert pages.queries[2]["continue"].startswith("eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEs")


def test_an_expired_list_without_a_token_begins_anew() -> None:
    pages = Pages((3, "none"))

    listed, _ = read(pages)

    assert names(listed) == NAMES
    assert listed.notes == ("it expired while it was being read and was begun anew",)
    assert "continue" not in pages.queries[3]


def test_a_list_that_keeps_expiring_is_given_up() -> None:
    with pytest.raises(ApiError, match="too old"):
        read(Pages((2, "none"), (4, "none"), (6, "none"), (8, "none")))


def test_what_comes_twice_after_an_expiry_is_kept_once() -> None:
    pages = Pages((3, "token"))

    listed, _ = read(pages)

    assert sorted(names(listed)) == NAMES


def test_an_empty_list_is_empty() -> None:
    class Nothing(Pages):
        def get(
            self, path: str, query: Mapping[str, str] | None = None, *, accept: str = "application/json"
        ) -> Response:
            return Response(200, {}, json.dumps({"kind": "PodList", "metadata": {}, "items": None}).encode())

    listed, reports = read(Nothing())

    assert listed.objects == ()
    assert reports == [(0, 0)]


def test_an_object_of_another_shape_is_named_with_its_place() -> None:
    page, metadata = cut_page(ALL_PODS, {"limit": "3"})
    page[1] = page[1] | {"spec": page[1]["spec"] | {"priority": "high"}}
    body = json.dumps({"metadata": {k: v for k, v in metadata.items() if k != "continue"}, "items": page}).encode()

    with pytest.raises(ApiError, match=r"\$\.items\[1\]\.spec\.priority: expected an integer"):
        page_decoder(PODS.kind.type, "/api/v1/pods")(body)


# --- pages ------------------------------------------------------------------------------------------------------------

OWN = {"metadata": {"name": "db-1"}, "data": {"spec": {"template": {"spec": {"priority": None}}}}, "revision": 3}
FOREIGN = {"metadata": {"name": "vm-1"}, "data": {"spec": {"template": ["a", "list"]}}, "revision": 1}
PAGE = json.dumps({"items": [FOREIGN, OWN]}).encode()


def test_objects_of_other_programs_are_left_out_where_a_kind_may_hold_anything() -> None:
    (revision,) = page_decoder(ControllerRevision, "/apis", is_open=True)(PAGE)

    assert (revision.metadata.name, revision.revision) == ("db-1", 3)


def test_objects_of_other_kinds_have_to_match() -> None:
    with pytest.raises(ApiError, match="template"):
        page_decoder(ControllerRevision, "/apis")(PAGE)


def test_what_is_no_list_is_refused_all_the_same() -> None:
    with pytest.raises(ApiError, match="not JSON"):
        page_decoder(ControllerRevision, "/apis", is_open=True)(b"<html>")


def test_an_object_that_no_api_server_stores_is_refused() -> None:
    large = {"metadata": {"name": "n", "annotations": {"a": "x" * MAX_OBJECT}}}
    small = [{"metadata": {"name": f"n{number}"}} for number in range(3)]

    with pytest.raises(ApiError, match=r"/nodes: items\[3\] is one object of more than 8 MiB"):
        page_decoder(Node, "/nodes")(json.dumps({"items": [*small, large]}).encode())
    with pytest.raises(ApiError, match="one object of more than 8 MiB"):
        decode_object(json.dumps(large).encode(), Node, "/nodes/n")


def test_a_page_may_be_larger_than_an_object() -> None:
    half = {"metadata": {"name": "n", "annotations": {"a": "x" * (MAX_OBJECT // 2)}}}

    assert len(page_decoder(Node, "/nodes")(json.dumps({"items": [half] * 3}).encode())) == 3
