import json
from pathlib import Path
from typing import Any

import pytest

from kplan import load_snapshot
from tests.cli.commands import invoke, printed, told, written
from tests.commands.conftest import WEB
from tests.commands.test_place import POD
from tests.schemas import assert_keeps_to_its_schema


def report(*args: str | Path) -> dict[str, Any]:
    found: dict[str, Any] = told("capacity", *args)
    return found


def test_nodes_can_be_left_out(web: Path) -> None:
    everywhere = report(web)
    without = report(web, "--exclude-nodes", "spot-a-1,general-a-1", "--exclude-nodes", "general-a-2")
    assert without["snapshot"]["nodes"] == 10
    assert set(without["nodes"]) == set(everywhere["nodes"]) - {"spot-a-1", "general-a-1", "general-a-2"}


def test_several_workloads_take_turns_and_whole_sets_are_counted(web: Path, tmp_path: Path) -> None:
    hello = written(tmp_path / "pod.yaml", POD)
    found = report(web, hello, "--mix", "1:2", "--max", "6")
    assert [(each["name"], each["share"], each["fits"]) for each in found["templates"]] == [
        ("default/web", 1, 2),
        ("default/hello", 2, 4),
    ]
    assert invoke("capacity", web, hello, "--max", "6", "-o", "name").stdout == "default/web 3\ndefault/hello 3\n"
    assert "TEMPLATE" in invoke("capacity", web, hello, "--max", "6").stdout
    text = invoke("capacity", web, hello, "--mix", "3:1", "--max", "6").stdout
    assert "1 whole set of 3 of default/web and 1 of default/hello, and 2 of default/web of the next" in text
    assert (found["sets"], "sets" in report(web)) == (2, False)


def test_without_any_node_nothing_fits(web: Path) -> None:
    nodes = [node.metadata.name for node in load_snapshot("demo").nodes]
    found = printed("capacity", web, "--exclude-nodes", ",".join(nodes))
    assert found.startswith("default/web: 0 replicas fit\n")
    assert "The cluster has no node." in found


SHAPES = """
- {name: small, cpu: 1930m, memory: 6Gi, price: 0.1}
- {name: large, cpu: 7900m, memory: 30Gi, price: 0.35}
"""


@pytest.fixture
def shapes(tmp_path: Path) -> Path:
    return written(tmp_path / "shapes.yaml", SHAPES)


def test_offers_stand_in_the_report(web: Path, shapes: Path) -> None:
    found = report(web, "--replicas", "30", "--shapes", shapes)

    assert_keeps_to_its_schema(found)
    offers = found["offers"]
    assert offers["isCheapest"]
    assert [each["price"] for each in offers["offers"]] == sorted(each["price"] for each in offers["offers"])
    assert {each["name"]: each["alone"] for each in offers["shapes"]} == {"small": 1, "large": 7}
    assert found["toAdd"] == []
    assert "offers" not in report(web, "--replicas", "2", "--shapes", shapes)
    shown = invoke("capacity", web, "--replicas", "30", "--shapes", shapes)
    assert "What to add to fit all 30, the cheapest first" in shown.stdout
    assert "No cheaper mix is enough." in shown.stdout
    assert "no effect" not in shown.stderr


def test_one_mix_and_none_are_told_in_words_of_their_own(web: Path, shapes: Path) -> None:
    shapes.write_text("- {name: small, cpu: 1930m, memory: 6Gi, price: 0}\n")
    assert (
        "No cheaper mix is enough. It was placed.\n"
        in invoke("capacity", web, "--replicas", "30", "--shapes", shapes).stdout
    )
    shapes.write_text("- {name: none, cpu: 0, memory: 0, price: 1}\n")
    assert (
        "No mix of these shapes was found.\n" in invoke("capacity", web, "--replicas", "30", "--shapes", shapes).stdout
    )


def test_shapes_do_not_help_against_a_quota(web: Path, shapes: Path, tmp_path: Path) -> None:
    quota = written(
        tmp_path / "quota.yaml",
        "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q, namespace: shop}\n"
        "spec: {hard: {pods: '1'}}\nstatus: {hard: {pods: '1'}, used: {pods: '1'}}\n",
    )
    found = invoke("capacity", web, "--replicas", "30", "--shapes", shapes, "--with", quota, "-n", "shop")
    assert "ResourceQuota shop/q refuses the pod: pods 1 of 1 used, 1 more requested" in found.stdout
    assert "warning: --shapes has no effect: more nodes would not help with what stops the next replica" in found.stderr


def test_the_order_in_which_nodes_go_and_why_others_stay() -> None:
    text = invoke("capacity", "--shrink", "--add-nodes", "2=general-a-1").stdout

    waits = "2 pods wait for a place, before and after "
    assert " ".join(text.split()).startswith(
        f"spot-b-1, spot-a-1 can go, drained one after another: 2 of 15 nodes; {waits}"
    )
    assert "Together they free 15800m cpu, 60Gi memory." in text
    assert "13 nodes stay" in text
    assert "a disruption budget does not allow it, such as " in text
    assert "Another order might free more." in text
    wide = invoke("capacity", "--shrink", "-o", "wide").stdout
    assert " ".join(wide.split()).startswith(f"spot-b-1 can go, drained one after another: 1 of 13 nodes; {waits}")
    assert "Cannot evict pod as it" in wide
    assert "general-a-1" not in invoke("capacity", "--shrink", "--exclude-nodes", "general-a-1", "-o", "json").stdout


def test_nodes_that_stay_are_annotated_once_a_reason() -> None:
    stays = [line for line in invoke("capacity", "--shrink", "-o", "github").stdout.splitlines() if "(stays)" in line]
    assert [line.split("::")[2].split("%0A")[0].split(":")[0] for line in stays] == ["6 nodes", "2 nodes", "4 nodes"]


def test_nodes_that_go_are_told_with_what_they_save() -> None:
    groups = ("--node-groups", "fixtures/node-groups.yaml")
    text = invoke("capacity", "--shrink", *groups).stdout
    document = told("capacity", "--shrink", *groups)
    assert "Price of the nodes whose price is known: 11.9 -> 11.75, saves 0.15." in text
    assert [(node["name"], node["saves"]) for node in document["freed"]] == [("spot-b-1", 0.15)]
    assert (document["price"], document["autoscaler"]["name"]) == (
        {"before": 11.9, "after": 11.75},
        "cluster-autoscaler",
    )


def headroom(*args: str | Path) -> dict[str, Any]:
    found: dict[str, Any] = told("capacity", "--headroom", *args)
    del found["generatedAt"]
    return found


@pytest.fixture(scope="module")
def demo() -> dict[str, Any]:
    return headroom()


def test_every_workload_of_the_cluster_has_a_line(demo: dict[str, Any]) -> None:
    assert_keeps_to_its_schema({**demo, "generatedAt": ""})
    told = {each["workload"]: each["fits"] for each in demo["workloads"]}
    assert (told["Deployment/shop/cart"], told["StatefulSet/data/postgres"]) == (18, 0)
    assert list(told.values()) == sorted(told.values())
    assert not any(key.startswith("DaemonSet") for key in told)
    text = invoke("capacity", "--headroom").stdout
    assert all(f"  {key} " in text for key in told)


def test_two_workers_give_the_same_bytes_as_one(demo: dict[str, Any]) -> None:
    assert json.dumps(headroom("--workers", "2")) == json.dumps(headroom("--workers", "1")) == json.dumps(demo)


def test_each_line_is_the_answer_to_its_question_alone(tmp_path: Path, demo: dict[str, Any]) -> None:
    web, hello = tmp_path / "web.yaml", tmp_path / "pod.yaml"
    web.write_text(WEB)
    hello.write_text(POD)
    together = {each["workload"]: each for each in headroom(web, hello)["workloads"]}

    assert list(together) == ["Deployment/default/web", "Pod/default/hello"]
    for path in (web, hello):
        (alone,) = headroom(path)["workloads"]
        plain = told("capacity", path)
        assert together[alone["workload"]] == alone
        assert alone["fits"] == plain["summary"]["fits"]
        assert alone["stop"] == plain["stop"]["placement"]


def test_the_exit_code_says_whether_every_workload_has_room(tmp_path: Path) -> None:
    path = written(tmp_path / "web.yaml", WEB)
    assert invoke("capacity", "--headroom", path, "--replicas", "8").exit_code == 0
    assert invoke("capacity", "--headroom", path, "--replicas", "9").exit_code == 1
