"""The clock on the command line."""

import pytest

from tests.cli.commands import invoke


def test_durations_are_those_that_were_given_and_the_report_says_so() -> None:
    shown = invoke("place", "--timeline", "fixtures/web.yaml", "--start", "deployment/shop/web=7s", "--stop", "3s")

    assert "shop/web-" not in shown.stderr
    assert "start 7 s (given), stop 3 s (given)" in shown.stdout


def test_too_few_ready_pods_fail_where_that_is_asked_for() -> None:
    drain = ("drain", "--timeline", "spot-a-1", "--timeout", "1m", "--fail-on", "unavailable")

    assert invoke(*drain).exit_code == invoke(*drain, "--min-ready", "100%").exit_code - 1 == 0
    assert "Unavailable" in invoke(*drain, "--min-ready", "100%", "-o", "junit").stdout


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("plan", "--until", "1h"), "--until needs --timeline"),
        (("plan", "--until", "1h", "--start", "5s"), "--start and --until need --timeline"),
        (("drain", "--profile", "gke", "--until", "1h"), "--profile and --until need --timeline"),
        (("plan", "--timeline", "--start", "soon"), "--start: not a duration: 'soon'"),
        (("plan", "--timeline", "--start", "pod?app=web=3s"), "is no single workload"),
        (("plan", "--timeline", "--until", "400d"), "longer than a year"),
        (("plan", "--timeline", "--min-ready", "most"), "neither a number nor a percentage"),
        (("plan", "--timeline", "--queue", "--runs", "5"), "--queue and --runs do not go together"),
        (("place", "--timeline", "-A"), "--timeline needs manifests"),
        (("drain", "general-a-1", "--surge", "1"), "--surge needs --timeline"),
        (("drain", "general-a-1", "--timeline", "--surge", "1"), "--surge needs --replace"),
        (("drain", "general-a-1", "--timeline", "--rolling", "--surge", "1"), "--surge needs --replace"),
        (("drain", "general-a-1", "--timeline", "--lost", "--surge", "1"), "--surge does not go with --lost"),
    ],
)
def test_what_makes_no_sense_is_refused_in_clear_words(args: tuple[str, ...], words: str) -> None:
    result = invoke(*args)

    assert result.exit_code == 2, result.stdout
    assert words in result.stderr.replace("\n  ", " ")


def test_a_duration_of_a_workload_that_does_not_move_is_told_to_have_no_effect() -> None:
    result = invoke("place", "--timeline", "fixtures/web.yaml", "--start", "deployment/shop/no-such=7s")

    assert "no pod of Deployment/shop/no-such comes, goes or ends" in result.stderr.replace("\n  ", " ")
