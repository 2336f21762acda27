"""Pages to look at: the demo cluster asked several questions, and a large cluster."""

import random
from functools import cache
from typing import Any

import kplan
from kplan.questions.base import Showing
from kplan.questions.diff.document import ComparedAnswer, diff_report
from kplan.questions.drain import Drain, InTurn
from kplan.report.options import ReportOptions
from kplan.report.registry import render
from tests.report.documents import node, pod

NAMES = ("plan", "place", "drains", "many", "diff")
N_NODES = 5000


@cache
def text(name: str) -> str:
    """Return a page."""
    if name == "many":
        planner = kplan.Planner(kplan.load_snapshot(_many()))
        report: Any = planner.plan([pod(f"new-{number}") for number in range(5)]).report(with_map=True, nodes_of={})
    elif name == "plan":
        report = kplan.Planner(kplan.load_snapshot("demo")).plan_queue().report(with_map=True)
    elif name == "diff":
        sides = [
            ComparedAnswer(words, planner.plan(["shop/voucher-api", "shop/flash-sale"]).report(with_map=True))
            for words, planner in (("before", _demo()), ("after", _demo().changed(cordon=["general-a-*"])))
        ]
        report = diff_report(*sides, fail_on=("regression",))
    elif name == "drains":
        planner = kplan.Planner(kplan.load_snapshot("demo"))
        report = InTurn(question=Drain(("gpu-a-1", "spot-b-1"))).answer(planner, Showing(with_map=True))
    else:
        report = kplan.Planner(kplan.load_snapshot("demo")).plan(["shop/voucher-api"]).report(with_map=True)
    return render(report, "html", ReportOptions(top=None))


def _demo() -> kplan.Planner:
    return kplan.Planner(kplan.load_snapshot("demo"))


def _many() -> list[dict[str, Any]]:
    draw = random.Random(1)
    nodes = [node(f"node-{row:05d}", cpu="16", labels={"node-pool": f"pool-{row % 5}"}) for row in range(N_NODES)]
    pods = [pod(f"run-{number}", node=f"node-{draw.randrange(N_NODES):05d}") for number in range(2 * N_NODES)]
    return [*nodes, *pods]
