"""The report of a change."""

from kplan.changes.remedy import Helped
from kplan.course.carry_out import carry_out
from kplan.course.clock import Clock
from kplan.course.report import change_report
from kplan.course.task import Task, WorkedOff
from tests.objects import deployment, head, node, planner_of, running


def test_what_helps_the_pods_of_a_cron_job_is_counted_over_all_its_runs() -> None:
    container = {"name": "c", "image": "app", "resources": {"requests": {"cpu": "3"}}}
    job = {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}}
    cron = head("CronJob", name="tick", namespace="default", uid="tick") | {
        "spec": {"schedule": "*/10 * * * *", "concurrencyPolicy": "Allow", "jobTemplate": job}
    }
    planner = planner_of(node("n1", "4"), cron)
    clock = Clock(start={"*": 2}, stop={"*": 1}, run={"CronJob/default/tick": 36_000}, runs_for=3600)

    report = change_report(carry_out(planner, Task(clock=clock)))

    waiting = [change for change in report.changes if change.to_node is None]
    assert len(waiting) == 5
    [attempt] = {change.attempt for change in waiting}
    assert {remedy.helps for remedy in report.placements[attempt].remedies or () if remedy.helps} == {Helped(5, 5)}


def test_of_many_kinds_of_waiting_pods_the_first_twenty_are_diagnosed() -> None:
    workloads = [running(deployment(f"w{n:02}", 1, cpu="9"), [""]) for n in range(22)]
    task = Task(clock=Clock(runs_for=60), queue=WorkedOff())
    report = change_report(carry_out(planner_of(node("n1"), *workloads), task))
    assert [change.attempt for change in report.changes] == [*range(20), None, None]
