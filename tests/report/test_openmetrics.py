"""Numbers for monitoring systems, as the OpenMetrics specification has them."""

import re
from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

import kplan
from kplan.documents.base import Report
from kplan.questions import Capacity
from kplan.questions.check import Check, Expect
from kplan.questions.plan import Plan
from kplan.report.options import ReportOptions
from kplan.report.registry import render
from tests.cli.commands import invoke
from tests.objects import deployment

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
SAMPLE = re.compile(
    rf'({NAME})(?:\{{((?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\[\\"n])*",?)*)\}})? (-?\d+(?:\.\d+)?(?:e[+-]\d+)?)'
)


def samples_of(text: str) -> Iterator[tuple[str, str, float]]:
    """Yield name, labels and value of every sample; what the specification forbids is an AssertionError."""
    assert text.endswith("\n# EOF\n")
    family, seen, samples = "", set(), set()
    for line in text.removesuffix("# EOF\n").splitlines():
        if line.startswith("#"):
            _, word, name, rest = line.split(" ", 3)
            assert re.fullmatch(NAME, name)
            if word == "TYPE":
                assert rest == "gauge"
                assert name not in seen, "families do not mix"
                family = name
                seen.add(name)
            assert name == family
            assert word in ("TYPE", "HELP") or (word == "UNIT" and name.endswith(f"_{rest}"))
            continue
        sample = SAMPLE.fullmatch(line)
        assert sample is not None, line
        assert sample[1] == family
        assert not sample[3].endswith(".0"), "whole numbers have no point"
        labels = sample[2] or ""
        assert (family, labels) not in samples
        samples.add((family, labels))
        yield family, labels, float(sample[3])


def values(document: Report) -> dict[str, float]:
    text = render(document, "openmetrics", ReportOptions())
    return {f"{name}{{{labels}}}" if labels else name: value for name, labels, value in samples_of(text)}


def test_capacity_counts_replicas_and_headroom_those_of_each_workload(demo: kplan.Planner) -> None:
    fits = demo.ask(Capacity(manifests=(deployment("web", 1),), replicas=500))
    counted, headroom, shrunk = values(fits), values(demo.headroom()), values(demo.shrink())
    assert counted['kplan_capacity_replicas{workload="default/web"}'] == fits.summary.fits
    assert counted["kplan_capacity_wanted_replicas"] == 500
    assert counted['kplan_failed{kind="CapacityReport"}'] == 1
    assert headroom['kplan_headroom_replicas{workload="Deployment/monitoring/grafana"}'] == 40
    assert shrunk["kplan_shrink_nodes"] == 1


def test_checks_have_a_state_each_and_two_of_one_name_are_added(demo: kplan.Planner) -> None:
    odd = 'a "name"\\ with\nlines'
    report = demo.check([Check(odd, Plan(), Expect(pending=0))] * 2)
    numbers = values(report)
    passed = numbers['kplan_check_state{check="a \\"name\\"\\\\ with\\\\nlines",state="passed"}']
    assert passed == report.summary.passed == 2
    assert sum(number for name, number in numbers.items() if "check_state" in name) == 2


def test_nodes_that_come_and_go_are_counted_by_pool() -> None:
    catalogue = "fixtures/karpenter/instance-types.yaml"
    karpenter = kplan.Karpenter(instance_types=catalogue)
    report = kplan.Planner("fixtures/karpenter/cluster.yaml", autoscaler=karpenter, now="2026-01-15T12:00:00Z").nodes()

    numbers = values(report)

    assert numbers["kplan_nodes_added"] == len(report.adds) > 0
    assert sum(number for name, number in numbers.items() if "pool_nodes_added" in name) == len(report.adds)
    assert numbers['kplan_nodes_price{when="before"}'] == report.price.before
    assert "when" not in render(
        replace(report, price=replace(report.price, before=None, after=None)), "openmetrics", ReportOptions()
    )


def test_what_has_no_answer_says_so(tmp_path: Path) -> None:
    result = invoke("check", "-s", tmp_path / "missing.json", "-o", "openmetrics")
    assert result.exit_code == 2
    [(name, labels, value)] = samples_of(result.stdout)
    assert (name, value) == ("kplan_answered", 0)
    assert labels.endswith('missing.json: no such file or directory"')
