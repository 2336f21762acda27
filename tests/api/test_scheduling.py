"""How the pods of a group may be evicted, as each version of its API writes it."""

import kplan
from kplan.api.decode import convert
from kplan.api.scheduling import PodGroupSpec
from kplan.snapshot.redact import redact_snapshot


def test_a_group_that_is_only_evicted_together_is_read_in_the_words_of_every_version() -> None:
    modes = ("PodGroup", {"all": {}}, "Pod", {"single": {}}, None)
    specs = [convert({} if mode is None else {"disruptionMode": mode}, PodGroupSpec) for mode in modes]
    assert [spec.is_disrupted_as_a_whole for spec in specs] == [True, True, False, False, False]


def test_a_redacted_group_is_evicted_as_before() -> None:
    groups = [
        {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}
        for name, spec in (("g", {"disruptionMode": {"all": {}}}), ("h", {"disruptionMode": "Pod"}))
    ]
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    snapshot = redact_snapshot(kplan.load_snapshot([node, *groups]))
    assert [group.spec.is_disrupted_as_a_whole for group in snapshot.pod_groups] == [True, False]
