"""Arguments mean what kubectl's do, and so do a namespace and labels."""

import json
from pathlib import Path

import pytest
import yaml

from kplan.cli.arguments import node_names
from tests.cli.commands import invoke, printed, refused, told, written
from tests.commands.conftest import WEB
from tests.report.documents import node, pod


def _pods(*args: str) -> list[str]:
    found = invoke(*args, "-o", "json")
    return [placement["pod"]["name"] for placement in json.loads(found.stdout)["placements"]]


@pytest.mark.parametrize(
    "args",
    [
        ("po", "llm-eval", "-n", "ml"),
        ("pod/llm-eval", "-n", "ml"),
        ("pods", "ml/llm-eval"),
        ("po/ml/llm-eval",),
        ("llm-eval", "-n", "ml"),
    ],
)
def test_a_pod_is_named_in_any_of_the_ways_of_kubectl(args: tuple[str, ...]) -> None:
    assert _pods("explain", *args) == ["llm-eval"]
    assert _pods("place", *args) == ["llm-eval"]


def test_several_of_a_kind_are_named_after_it() -> None:
    pods = _pods("explain", "deploy", "shop/cart", "shop/search", "po", "ml/llm-eval")
    assert {name.split("-")[0] for name in pods} == {"cart", "search", "llm"}


def test_a_file_goes_before_a_kind_and_a_kind_before_a_namespace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("job").write_text(WEB)
    assert _pods("place", "job")[0].startswith("web-")


def test_a_node_is_named_in_any_of_the_ways_of_kubectl() -> None:
    for args in (["spot-a-1"], ["node/spot-a-1"], ["no/spot-a-1"], ["node", "spot-a-1"]):
        assert node_names(args) == ["spot-a-1"]
    plain, globbed = (
        printed("drain", *args, "-o", "name", code=1)
        for args in (("spot-a-1",), ("nodes/spo*-a-1", "--ignore-daemonsets"))
    )
    assert plain == globbed


def test_a_workload_without_pending_pods_is_asked_for_its_next_one() -> None:
    found = invoke("place", "deploy/cart", "-n", "shop")
    assert found.stdout.startswith("shop/cart-86d4vc9n2-1 -> general-a-2")
    assert "its next one" in found.stderr
    assert "kplan place Deployment/shop/cart shows where its next" in refused("plan", "deploy/cart", "-n", "shop")
    assert _pods("place", "Deployment/shop/cart", "-q") == ["cart-86d4vc9n2-1"]


def test_a_workload_with_pending_pods_is_asked_for_these(tmp_path: Path) -> None:
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "daily", "namespace": "default", "uid": "1"}}
    owned = pod("daily-x7", cpu="1")
    owned["metadata"]["ownerReferences"] = [
        {"apiVersion": "batch/v1", "kind": "Job", "name": "daily", "uid": "1", "controller": True}
    ]
    template = {"template": {"spec": {**pod("any")["spec"], "restartPolicy": "Never"}}}
    cluster = written(tmp_path / "cluster.yaml", yaml.safe_dump_all([node("a"), {**job, "spec": template}, owned]))
    assert _pods("place", "job/daily", "-s", str(cluster)) == ["daily-x7"]


def test_pending_pods_are_chosen_as_in_kubectl() -> None:
    assert len(_pods("place", "-A")) == 5
    assert _pods("place", "-n", "shop") == ["flash-sale", "voucher-api"]


def test_replicas_of_a_workload_of_the_cluster_are_counted_as_those_of_its_manifest(tmp_path: Path) -> None:
    one = told("capacity", "deploy/shop/cart")
    headroom = told("capacity", "--headroom", "deploy/cart", "-n", "shop")
    mixed = told("capacity", "deploy/shop/cart", "deploy/shop/search", "--mix", "2:1")
    web = written(tmp_path / "web.yaml", WEB)
    both = invoke("capacity", web, "deploy/shop/cart", "--mix", "1:3")
    assert [workload["fits"] for workload in headroom["workloads"]] == [one["summary"]["fits"]]
    assert [template["share"] for template in mixed["templates"]] == [2, 1]
    assert both.exit_code == 0, both.stderr
    assert "--mix" in invoke("capacity", "deploy/shop/cart", "deploy/shop/search", "--mix", "1:2:3").stderr


def test_headroom_is_that_of_one_namespace_or_of_all() -> None:
    choices = (("-n", "shop"), ("-A",), ("-A", "-n", "shop"))
    shop, everywhere, again = (told("capacity", "--headroom", "--max", "1", *one)["workloads"] for one in choices)
    assert {workload["workload"].split("/")[1] for workload in shop} == {"shop"}
    assert len(shop) < len(everywhere) == len(again)


def names(*args: str) -> list[str]:
    found = invoke(*args, "-o", "name")
    assert found.exit_code in (0, 1), found.stderr
    return found.stdout.splitlines()


@pytest.mark.parametrize(
    ("options", "pods"),
    [
        ((), ["shop/flash-sale", "ml/fine-tune", "ml/llm-eval"]),
        (("-A",), ["shop/flash-sale", "ml/fine-tune", "ml/llm-eval"]),
        (("-n", "ml"), ["ml/fine-tune", "ml/llm-eval"]),
        (("-n", "ml", "-A"), ["shop/flash-sale", "ml/fine-tune", "ml/llm-eval"]),
        (("-l", "app=flash-sale"), ["shop/flash-sale"]),
        (("-n", "ml", "-l", "app!=llm-eval"), ["ml/fine-tune"]),
        (("-l", "app=nobody"), []),
    ],
)
def test_preempt_looks_at_the_pending_pods_that_are_meant(options: tuple[str, ...], pods: list[str]) -> None:
    assert [line.split()[0] for line in names("preempt", *options)] == pods


def test_plan_works_off_the_pending_pods_that_are_meant() -> None:
    assert names("plan", "-n", "ml")[:2] == ["+ ml/fine-tune gpu-b-1", "! ml/llm-eval -"]
    assert names("plan", "--queue", "-l", "app in (flash-sale)") == ["shop/flash-sale"]
    assert names("plan", "-A", "--queue") == names("plan", "--queue")


def test_with_manifests_the_namespace_is_theirs() -> None:
    assert "! ml/llm-eval -" in names("plan", "fixtures/web.yaml", "-n", "shop")


def test_explain_takes_all_pods_that_are_meant() -> None:
    cart = names("explain", "-n", "shop", "-l", "app=cart")
    assert len(cart) == 6
    assert all(line.startswith("shop/cart-") for line in cart)
    assert len(names("explain", "-A", "-l", "app=cart")) == 6


def test_a_snapshot_counts_the_pods_that_are_meant() -> None:
    def counted(*options: str) -> tuple[int, float]:
        document = told("snapshot", "show", "demo", *options)
        return document["pods"]["total"], next(e["requested"] for e in document["resources"] if e["name"] == "cpu")

    everything, shop = counted(), counted("-n", "shop")
    assert counted("-n", "shop", "-A") == everything
    assert shop[0] < everything[0]
    assert shop[1] < everything[1]


def test_a_choice_beside_a_name_does_nothing() -> None:
    stderr = invoke("preempt", "ml/llm-eval", "-l", "x=y").stderr
    assert "--selector has no effect: the arguments name the pods" in stderr
