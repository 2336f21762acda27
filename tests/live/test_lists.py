import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

from kplan.api.core import Node
from kplan.api.workloads import ControllerRevision
from kplan.errors import ApiError
from kplan.live import RESOURCES
from kplan.live.reader import ListedObjects, Reader, Response, decode_object, page_decoder, read_list
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
            answer = replay("error-410-old-rv-exact" if name == "none" else "error-410-expired-continue")
            number = b"%d" % len(self.queries) if name == "new" else b""
            return Response(answer.status, {}, answer.body.replace(b"eyJ2", number + b"eyJ2"))
        request = Request("GET", path, dict(query or {}), [("Authorization", "Bearer admin-token")])
        answer = Cluster().answer(request)
        return Response(answer.status, {}, answer.body)


def read(pages: Pages, page_size: int = 20, selector: str = "") -> tuple[ListedObjects, list[tuple[int, int | None]]]:
    reports: list[tuple[int, int | None]] = []
    with ThreadPoolExecutor(1) as executor:
        listed = read_list(
            Reader(pages),
            "/api/v1/pods",
            selector=selector,
            page_size=page_size,
            decode=page_decoder(PODS.kind.type, "/api/v1/pods"),
            executor=executor,
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


CHANGED = "it changed while it was being read: the rest is of a later moment"
BEGUN = "it expired while it was being read and was begun anew"


@pytest.mark.parametrize(
    ("interruption", "note", "token"),
    [
        # The recorded token stands right behind the first page; later pages come twice, and are kept once.
        ((2, "token"), CHANGED, "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEs"),
        ((3, "token"), CHANGED, "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEs"),
        ((3, "none"), BEGUN, ""),
    ],
)
def test_an_expired_list_goes_on_with_the_servers_token_or_begins_anew(
    interruption: tuple[int, str], note: str, token: str
) -> None:
    pages = Pages(interruption)
    listed, _ = read(pages)
    assert (names(listed), listed.notes) == (NAMES, (note,))
    query = pages.queries[interruption[0]]
    assert query["continue"].startswith(token) if token else "continue" not in query


def test_a_list_that_keeps_expiring_is_given_up() -> None:
    for interruptions in ([(2, "none"), (4, "none"), (6, "none"), (8, "none")], [(n, "new") for n in range(1, 30)]):
        with pytest.raises(ApiError, match="too old"):
            read(Pages(*interruptions))


def test_an_empty_list_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    empty = Response(200, {}, b'{"kind": "PodList", "metadata": {}, "items": null}')
    monkeypatch.setattr(Pages, "get", lambda *_, **__: empty)
    assert read(Pages()) == (ListedObjects(()), [(0, 0)])


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
    read_open = page_decoder(ControllerRevision, "/apis", is_open=True)
    (revision,) = read_open(PAGE)
    assert (revision.metadata.name, revision.revision) == ("db-1", 3)
    with pytest.raises(ApiError, match="template"):
        page_decoder(ControllerRevision, "/apis")(PAGE)
    with pytest.raises(ApiError, match="not JSON"):
        read_open(b"<html>")


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
