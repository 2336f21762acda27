from kplan.config.releases import release_of
from kplan.config.releases.model import version_note


def test_a_known_version_needs_no_words_and_one_that_is_none_is_said_as_it_is() -> None:
    assert version_note("v1.36.2-eks-1234", 36, release_of("1.36")) == ""
    note = version_note("v2.1", None, release_of("1.36"))
    assert note == "the server is v2.1, and kplan decides as kube-scheduler v1.36"


def test_an_older_server_lacks_what_came_later() -> None:
    note = version_note("v1.31.4", 31, release_of("1.33"))
    assert "the server is v1.31.4, and kplan decides as kube-scheduler v1.33" in note
    assert "SchedulerQueueingHints (1.32), InPlacePodVerticalScaling (1.33)" in note
    assert "MatchLabelKeysInPodAffinity" not in note


def test_a_newer_server_may_have_what_nobody_knows_here() -> None:
    note = version_note("v1.38.0", 38, release_of("1.37"))
    assert "what v1.38 and later changed is not known here, except that" in note
    assert "DynamicResourceAllocation are gone" in note
