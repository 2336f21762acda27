"""How long pods stay under taints."""

import math

import pytest

from kplan.api.affinity import Taint, Toleration
from kplan.api.labels import UNREACHABLE
from kplan.course.simulation.taint_eviction import tolerated_seconds

MAINTENANCE = "maintenance"


def _tolerates(key: str, seconds: int | None) -> Toleration:
    return Toleration(key=key, operator="Exists", effect="NoExecute", toleration_seconds=seconds)


def _taints(*keys: str) -> list[Taint]:
    return [Taint(key=key, effect="NoExecute") for key in keys]


@pytest.mark.parametrize(
    ("tolerations", "taints", "seconds"),
    [
        ([], [UNREACHABLE], 300),  # what the API server adds
        ([], [MAINTENANCE], -1),
        ([_tolerates(UNREACHABLE, None)], [UNREACHABLE], math.inf),
        ([_tolerates(UNREACHABLE, 30)], [UNREACHABLE], 30),
        ([_tolerates(UNREACHABLE, -5)], [UNREACHABLE], 0),
        ([_tolerates(UNREACHABLE, None), _tolerates(UNREACHABLE, 30)], [UNREACHABLE], math.inf),  # the first counts
        ([_tolerates(UNREACHABLE, 30), _tolerates(MAINTENANCE, 10)], [UNREACHABLE, MAINTENANCE], 10),
        ([_tolerates(UNREACHABLE, 30)], [UNREACHABLE, MAINTENANCE], -1),
    ],
)
def test_the_least_time_of_all_taints_counts(tolerations: list[Toleration], taints: list[str], seconds: float) -> None:
    assert tolerated_seconds(tolerations, _taints(*taints)) == seconds
