"""How long a look at a whole day takes: 500 nodes, and cron jobs that start and end 20,000 pods.

Run it with: python tests/benchmarks/bench_timeline.py
"""

import time

import clusters

from kplan.cli.process import finish_loading, start_loading
from kplan.course.carry_out import carry_out
from kplan.course.clock import Clock
from kplan.course.task import Task, WorkedOff
from tests.objects import Object, cron_job, job, planner_of

N_NODES = 500
N_CRON_JOBS = 70
EVERY_MINUTES = 5
DAY = 24 * 3600.0


def _cron_job(index: int) -> Object:
    run = job(f"cron-{index}", cpu=f"{200 + index * 10}m")
    return cron_job(f"cron-{index}", f"{index % EVERY_MINUTES}-59/{EVERY_MINUTES} * * * *", run)


def measured() -> tuple[int, int, float]:
    """Return how many pods started and ended, and how many seconds of CPU time that took."""
    objects = [
        *(clusters.node(index, cpu="16", memory="64Gi") for index in range(N_NODES)),
        *map(_cron_job, range(N_CRON_JOBS)),
    ]
    start_loading()  # as the command does: what is loaded stays out of garbage collections
    planner = planner_of(objects)
    finish_loading()
    clock = Clock(start={"*": 5.0}, stop={"*": 2.0}, run={"*": 180.0}, runs_for=DAY)
    begin = time.process_time()
    plan = carry_out(planner, Task(clock=clock, queue=WorkedOff()))
    plan.timeline  # noqa: B018 - the queue and the utilisation over time
    ends = sum(step.event == "succeeded" for step in plan.steps)
    starts = sum(step.event == "bound" for step in plan.steps)
    return starts, ends, time.process_time() - begin


def main() -> None:
    """Print the same."""
    starts, ends, seconds = measured()
    print(f"24 h of {N_NODES} nodes, {starts:,} starts and {ends:,} ends: {seconds:.1f} s")


if __name__ == "__main__":
    main()
