"""An answer that depends on a draw among equal nodes says so without being asked."""

from tests.incidents.asking import answer, text


def test_whether_a_pod_finds_a_place_is_luck() -> None:
    luck = answer("tie-decides", "drain", "a-0")["luck"]
    assert [*luck["pending"]] == ["shop/zk-0"]
    assert 3 <= luck["pending"]["shop/zk-0"] <= 10
    assert luck["fails"] == luck["pending"]["shop/zk-0"]
    assert "Depends on luck" in text("tie-decides", "drain", "a-0")


def test_an_answer_that_no_draw_changes_does_not_speak_of_luck() -> None:
    assert "luck" not in answer("single-replica-budget", "drain", "w-1")
    assert "luck" not in answer("drain-needs-force", "drain", "a-1")
