import json

import pytest

from kplan.api.apps import ControllerRevision
from kplan.errors import ApiError
from kplan.live.pages import page_decoder

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
