from __future__ import annotations

import pytest

from kplan.errors import ManifestError
from kplan.snapshot.objects import decode_pod


def test_a_dict_becomes_a_completed_pod() -> None:
    pod = decode_pod({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}})
    assert (pod.metadata.namespace, pod.spec.scheduler_name) == ("default", "default-scheduler")


@pytest.mark.parametrize(
    ("obj", "path"),
    [
        ({"kind": "Node", "apiVersion": "v1"}, "$.kind"),
        ({"spec": {"priority": "x"}}, "$.spec.priority"),
        ({"spec": {"overhead": {"cpu": "x"}}}, "$.spec.overhead.cpu"),
    ],
)
def test_what_is_no_pod_is_refused(obj: dict[str, object], path: str) -> None:
    with pytest.raises(ManifestError) as caught:
        decode_pod(obj)
    assert [problem.json_path for problem in caught.value.problems] == [path]
