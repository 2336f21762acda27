import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import invoke, told, written
from tests.commands.conftest import WEB
from tests.commands.test_place import POD
from tests.schemas import assert_keeps_to_its_schema


def report(*args: str | Path) -> dict[str, Any]:
    found: dict[str, Any] = told("capacity", "--headroom", *args)
    del found["generatedAt"]
    return found


@pytest.fixture(scope="module")
def demo() -> dict[str, Any]:
    return report()


def test_every_workload_of_the_cluster_has_a_line(demo: dict[str, Any]) -> None:
    assert_keeps_to_its_schema({**demo, "generatedAt": ""})
    told = {each["workload"]: each["fits"] for each in demo["workloads"]}
    assert (told["Deployment/shop/cart"], told["StatefulSet/data/postgres"]) == (18, 0)
    assert list(told.values()) == sorted(told.values())
    assert not any(key.startswith("DaemonSet") for key in told)
    text = invoke("capacity", "--headroom").stdout
    assert all(f"  {key} " in text for key in told)


def test_two_workers_give_the_same_bytes_as_one(demo: dict[str, Any]) -> None:
    assert json.dumps(report("--workers", "2")) == json.dumps(report("--workers", "1")) == json.dumps(demo)


def test_each_line_is_the_answer_to_its_question_alone(tmp_path: Path, demo: dict[str, Any]) -> None:
    web, hello = tmp_path / "web.yaml", tmp_path / "pod.yaml"
    web.write_text(WEB)
    hello.write_text(POD)
    together = {each["workload"]: each for each in report(web, hello)["workloads"]}

    assert list(together) == ["Deployment/default/web", "Pod/default/hello"]
    for path in (web, hello):
        (alone,) = report(path)["workloads"]
        plain = told("capacity", path)
        assert together[alone["workload"]] == alone
        assert alone["fits"] == plain["summary"]["fits"]
        assert alone["stop"] == plain["stop"]["placement"]


def test_the_exit_code_says_whether_every_workload_has_room(tmp_path: Path) -> None:
    path = written(tmp_path / "web.yaml", WEB)
    assert invoke("capacity", "--headroom", path, "--replicas", "8").exit_code == 0
    assert invoke("capacity", "--headroom", path, "--replicas", "9").exit_code == 1


def test_explained_it_tells_what_stops_each(tmp_path: Path) -> None:
    path = written(tmp_path / "web.yaml", WEB)
    found = invoke("capacity", "--headroom", path, "--explain", "-o", "wide").stdout
    assert "EACH REQUESTS" in found
    assert "What stops the next replica of Deployment/default/web" in found
