import pytest

from kplan.admission.limits import Rejection, check
from kplan.api.core import LimitRange, PersistentVolumeClaim
from kplan.api.decode import convert


def claim(storage: str) -> PersistentVolumeClaim:
    spec = {"resources": {"requests": {"storage": storage}}} if storage else {}
    return convert({"metadata": {"name": "c", "namespace": "d"}, "spec": spec}, PersistentVolumeClaim)


@pytest.mark.parametrize(
    ("storage", "message"),
    [
        ("512Mi", "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 512Mi"),
        ("6Gi", "maximum storage usage per PersistentVolumeClaim is 5Gi, but request is 6Gi"),
        (
            "",
            (
                "[minimum storage usage per PersistentVolumeClaim is 1Gi.  No request is specified,"
                " maximum storage usage per PersistentVolumeClaim is 5Gi.  No request is specified]"
            ),
        ),
    ],
)
def test_claims_are_held_against_bounds_too(storage: str, message: str) -> None:
    limit = {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "5Gi"}}
    bounds = convert({"metadata": {"name": "l", "namespace": "d"}, "spec": {"limits": [limit]}}, LimitRange)
    check(claim("2Gi"), [bounds])
    with pytest.raises(Rejection) as caught:
        check(claim(storage), [bounds])
    assert str(caught.value) == message
