import pytest

from kplan.config.args import UtilizationShapePoint
from kplan.engine.resource_scoring import utilization_table


@pytest.mark.parametrize(
    ("points", "at", "expected"),
    [
        pytest.param([(0, 0), (100, 10)], [0, 29, 100], [0, 29, 100], id="a straight line"),
        pytest.param([(0, 10), (100, 0)], [0, 29, 100], [100, 71, 0], id="falling"),
        pytest.param([(40, 0), (60, 10)], [0, 40, 45, 60, 99], [0, 0, 25, 100, 100], id="flat outside its points"),
        pytest.param([(0, 10), (70, 0)], [1, 2], [99, 98], id="a fall is cut off toward zero: -100/70 is -1"),
    ],
)
def test_the_score_of_a_utilization_is_read_off_a_broken_line(
    points: list[tuple[int, int]], at: list[int], expected: list[int]
) -> None:
    shape = [UtilizationShapePoint(utilization=utilization, score=score) for utilization, score in points]

    assert utilization_table(shape)[at].tolist() == expected
