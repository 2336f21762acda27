"""How long `kplan remedy` searches: pending pods of several workloads in a cluster without room for them.

usage: python tests/benchmarks/bench_remedy.py [NODES [WORKLOADS]]
"""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from kplan.questions.remedy import Remedy
from tests.objects import planner_of
from tests.questions.remedy.test_report import deployment, node

_PER_WORKLOAD = 10


def seconds(n_nodes: int = 500, n_workloads: int = 20) -> tuple[float, str]:
    """Search what lets all pending pods run: seconds, and how far the search went."""
    objects = [node(f"n{number}", "8") for number in range(n_nodes)]
    for number in range(n_nodes // 10):
        objects += deployment(f"r{number}", "3500m", tuple(f"n{(20 * number + i) % n_nodes}" for i in range(20)))
    for number in range(n_workloads):
        objects += deployment(f"p{number}", f"{1500 + 100 * number}m", ("",) * _PER_WORKLOAD)
    planner = planner_of(objects)
    begun = time.process_time()
    report = planner.ask(Remedy())
    whole = "least" if report.remedy.is_least else "not all tried"
    return time.process_time() - begun, f"{report.remedy.runs} of {report.remedy.of} run, {report.tried} sets, {whole}"


if __name__ == "__main__":
    print("{:.1f} s CPU: {}".format(*seconds(*map(int, sys.argv[1:3]))))
