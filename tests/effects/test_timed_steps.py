"""Steps of a timeline as they are written."""

from typing import Any

import pytest

import kplan
from tests.simulation.clusters import node


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"break": ["n0"]}, "a change has no field break"),
        ({"fail": ["n7"]}, "n7"),
        ({"fail": [7]}, "fail: "),
        ({"delete": [["Deployment", "web"]]}, "'Deployment' is not deleted by a step"),
        ({"delete": ["n0"]}, "delete: "),
        ({"delete": [["Pod", "web"]]}, "there is no pod web"),
        ({"taint": {"n0": ["key"]}}, "'key' is no taint"),
        ({"taint": {"n0": ["key:Sometimes"]}}, "'key:Sometimes' is no taint"),
        ({"conditions": {"n0": {"DiskPressure": "yes"}}}, "'yes' is no status"),
        ({"drain": ["n0"], "options": {"skipWaitForDeleteTimeout": -1}}, "skipWaitForDeleteTimeout: -1 is no whole"),
        ({"drain": ["n0"], "options": {"patience": 1}}, "a drain has no option patience"),
    ],
)
def test_a_step_that_cannot_be_read_is_refused(change: dict[str, Any], message: str) -> None:
    planner = kplan.Planner(kplan.load_snapshot([node("n0")]))

    with pytest.raises(kplan.KplanError, match=message):
        planner.timeline([change])
