"""How the pods of a group may be evicted, as each version of its API writes it."""

from kplan.api.decode import convert
from kplan.api.scheduling import PodGroupSpec


def test_a_group_that_is_only_evicted_together_is_read_in_the_words_of_every_version() -> None:
    modes = ("PodGroup", {"all": {}}, "Pod", {"single": {}}, None)
    specs = [convert({} if mode is None else {"disruptionMode": mode}, PodGroupSpec) for mode in modes]
    assert [spec.is_disrupted_as_a_whole for spec in specs] == [True, True, False, False, False]
