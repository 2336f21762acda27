"""The clock on the command line."""

from tests.cli.commands import invoke


def test_durations_are_those_that_were_given_and_the_report_says_so() -> None:
    shown = invoke("place", "--timeline", "fixtures/web.yaml", "--start", "deployment/shop/web=7s", "--stop", "3s")
    assert "shop/web-" not in shown.stderr
    assert "start 7 s (given), stop 3 s (given)" in shown.stdout


def test_too_few_ready_pods_fail_where_that_is_asked_for() -> None:
    drain = ("drain", "--timeline", "spot-a-1", "--timeout", "1m", "--fail-on", "unavailable")
    assert invoke(*drain).exit_code == invoke(*drain, "--min-ready", "100%").exit_code - 1 == 0
    assert "Unavailable" in invoke(*drain, "--min-ready", "100%", "-o", "junit").stdout


def test_a_duration_of_a_workload_that_does_not_move_is_told_to_have_no_effect() -> None:
    result = invoke("place", "--timeline", "fixtures/web.yaml", "--start", "deployment/shop/no-such=7s")
    assert "no pod of Deployment/shop/no-such comes, goes or ends" in result.stderr.replace("\n  ", " ")
