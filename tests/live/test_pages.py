import json

import pytest

from kplan.api.apps import ControllerRevision
from kplan.api.core import Node
from kplan.errors import ApiError
from kplan.live.lists import decode_object, page_decoder
from kplan.reading.limits import MAX_OBJECT

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
