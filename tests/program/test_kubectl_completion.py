"""kubectl's protocol for completing what comes after a plugin's name."""

from pathlib import Path

import pytest
import typer

from kplan.program.completion import complete
from kplan.program.main import app
from tests.cli.commands import listed


def offered(*words: str) -> tuple[list[str], int]:
    """Return the completions, without what they are, and the directive."""
    *lines, directive = complete(typer.main.get_command(app), words).splitlines()
    return [line.partition("\t")[0] for line in lines], int(directive.removeprefix(":"))


@pytest.fixture(autouse=True)
def snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KPLAN_SNAPSHOT", raising=False)


def test_commands_and_those_of_groups_are_offered_but_no_files() -> None:
    assert offered("pl") == (["place", "plan"], 4)
    assert offered("snapshot", "") == (["save", "show", "check", "rbac", "types", "groups"], 4)
    assert "names" not in offered("")[0]


def test_what_a_completion_is_stands_behind_a_tab() -> None:
    (line, _) = complete(typer.main.get_command(app), ["preem"]).splitlines()
    assert line == "preempt\tShow which pods would be evicted to make room, and why those."


def test_options_are_offered_and_their_choices() -> None:
    assert offered("place", "--name") == (["--namespace", "--namespaces"], 4)
    assert offered("place", "-o", "j") == (["json", "junit"], 4)
    assert offered("place", "--output=ya") == (["--output=yaml"], 4)
    assert offered("place", "--snapshot", "")[1] == 0


def test_names_come_from_the_snapshot_that_the_command_line_names() -> None:
    assert offered("drain", "-s", "demo", "gpu") == (["gpu-a-1", "gpu-b-1"], 0)
    assert offered("place", "--snapshot=demo", "shop/vou") == (["shop/voucher-api"], 0)
    assert offered("explain", "-s", "demo", "deployment/shop/ca") == (["deployment/shop/cart"], 0)
    assert offered("place", "-s", "demo", "deploy/shop/ca") == (["deploy/shop/cart"], 0)
    assert offered("place", "-s", "demo", "--namespace", "sh") == (["shop"], 4)
    assert offered("drain", "-s", "demo", "--zone", "eu-west-1a") == (["eu-west-1a"], 4)
    assert offered("drain", "-s", "demo", "--pool", "gen") == (["general"], 4)
    assert offered("drain", "--by", "") == (["zone", "pool"], 4)


def test_names_are_those_of_the_namespace_on_the_command_line() -> None:
    assert offered("place", "-s", "demo", "-n", "shop", "vou") == (["voucher-api"], 0)
    assert offered("capacity", "-s", "demo", "--namespace=shop", "deploy/ca") == (["deploy/cart"], 0)


def test_the_environment_may_name_the_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KPLAN_SNAPSHOT", "demo")
    assert offered("drain", "gpu-a") == (["gpu-a-1"], 0)


def test_contexts_come_from_the_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "config"
    path.write_text("contexts: [{name: prod, context: {cluster: c}}, {name: dev, context: {cluster: c}}]\n")
    monkeypatch.setenv("KUBECONFIG", str(path))
    assert offered("plan", "--context", "") == (["dev", "prod"], 4)


def test_names_that_a_shell_could_run_are_not_offered(tmp_path: Path) -> None:
    names = ["$(touch ran)", "`touch ran`", "a b", "a\tb", "a\n:1", "--as=admin", "sound"]
    nodes = [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}} for name in names]
    assert offered("drain", "-s", str(listed(tmp_path / "cluster.json", *nodes)), "") == (["sound"], 0)


@pytest.mark.parametrize("words", [(), ("nonsense", ""), ("drain", "-s", "/no/such", ""), ("place", "--nonsense", "x")])
def test_whatever_stands_there_ends_in_a_directive(words: tuple[str, ...]) -> None:
    assert offered(*words)[1] in (0, 4)


def test_it_is_installed_beside_the_plugin() -> None:
    scripts = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    assert 'kubectl_complete-kplan = "kplan.program.start:complete_for_kubectl"' in scripts


def test_a_list_is_completed_after_its_last_comma_without_what_it_has() -> None:
    assert offered("plan", "--fail-on", "gated,pend") == (["gated,pending"], 4)
    assert offered("plan", "--fail-on=gated,gat") == ([], 4)
    assert offered("capacity", "-s", "demo", "--exclude-nodes", "gpu-a-1,gpu") == (["gpu-a-1,gpu-b-1"], 4)
    assert offered("diff", "--fail-on", "") == (["regression", "warning", "none"], 4)
