import sys
from collections.abc import Iterator

import pytest

import kplan
from kplan.cel import expression, library
from tests.objects import head

CLASS = head("DeviceClass", name="gpu") | {
    "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}]}
}
NODE = head("Node", name="n1") | {"status": {"allocatable": {"cpu": "4", "pods": "10"}}}
POD = head("Pod", name="p", namespace="default") | {"spec": {"containers": [{"name": "c", "image": "x"}]}}


def forget() -> None:
    for cached in (library.library, expression._checker, expression.compile_expression):
        cached.cache_clear()


@pytest.fixture(autouse=True)
def missing_library(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(sys.modules, "cel_expr_python", None)  # an import then fails
    forget()
    yield
    forget()


def test_a_selector_is_not_evaluated_and_says_why() -> None:
    compiled = expression.compile_expression("device.driver == 'gpu.example.com'")
    assert isinstance(compiled, expression.DeviceExpression)
    assert "cel-expr-python, is not installed here" in compiled.unsupported


def test_a_cluster_with_devices_answers_with_a_warning_for_its_selector() -> None:
    planner = kplan.Planner(kplan.load_snapshot([CLASS, NODE]))
    placement = planner.plan([POD])
    (warning,) = [warning for warning in placement.to_dict()["warnings"] if warning["object"] == "DeviceClass/gpu"]
    assert "cel-expr-python, is not installed here" in warning["message"]
    assert placement.placements[0].node == "n1"
