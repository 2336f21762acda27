"""Which release decides, and which of equal nodes is taken."""

import pytest
from msgspec.structs import replace

import kplan
from kplan.errors import ConfigError, UsageError
from tests.objects import node, pod

CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"schedulerName": "default-scheduler", "plugins": {"placementScore": {}}}],
}


def on(version: str | None) -> kplan.Snapshot:
    return replace(kplan.load_snapshot([node("a"), pod("p", cpu="1")]), server_version=version)


@pytest.mark.parametrize(
    ("server", "requested", "loaded", "decides"),
    [
        (None, None, None, "1.36"),
        ("v1.34.1+k3s", None, None, "1.34.1"),
        ("v1.34.1+k3s", "auto", None, "1.34.1"),
        ("v1.34.1+k3s", None, "1.35", "1.35"),
        ("v1.34.1+k3s", "1.33", "1.35", "1.33"),
        ("v1.20.0", None, None, "1.33"),
    ],
)
def test_the_release_asked_for_comes_before_the_files_and_the_servers(
    server: str | None, requested: str | None, loaded: str | None, decides: str
) -> None:
    config = None if loaded is None else kplan.load_scheduler_config(None, kubernetes=loaded)
    planner = kplan.Planner(on(server), config, kubernetes=requested)
    assert planner.release.version == decides
    assert planner.config.release is planner.release or planner.config.release == planner.release
    codes = [warning.code for warning in planner.warnings]
    assert ("ServerVersion" in codes) == (server == "v1.20.0")


def test_a_configuration_is_read_again_by_the_release_that_decides() -> None:
    config = kplan.load_scheduler_config(CONFIG)
    assert kplan.Planner(on(None), config).config is config
    with pytest.raises(ConfigError, match="placementScore"):
        kplan.Planner(on("v1.34.3"), config)


def test_equal_nodes_are_taken_as_the_rule_says() -> None:
    nodes = []
    for name, zone in (("a", "z1"), ("b", "z1"), ("c", "z2")):
        zoned = node(name)
        zoned["metadata"]["labels"]["topology.kubernetes.io/zone"] = zone
        nodes.append(zoned)
    filler = pod("filler", cpu="1", on="a")
    snapshot = kplan.load_snapshot([*nodes, filler, pod("p", cpu="1")])

    taken = {ties: kplan.Planner(snapshot, ties=ties).place("default/p") for ties in ("scheduler", "name")}

    assert taken["name"].ties == taken["scheduler"].ties == ("b", "c")
    assert taken["name"].node == "b"
    assert taken["scheduler"].node == "c", "zone by zone in turn: a, c, b"
    assert kplan.Planner(snapshot, kubernetes="1.34").place("default/p").node == "b"
    assert {kplan.Planner(snapshot, seed=seed).place("default/p").node for seed in range(9)} == {"b", "c"}


@pytest.mark.parametrize("options", [{"ties": "best"}, {"ties": "name", "seed": 3}, {"ties": "scheduler", "seed": 3}])
def test_a_rule_that_is_none_is_refused(options: dict) -> None:
    with pytest.raises(UsageError):
        kplan.Planner(on(None), **options)
