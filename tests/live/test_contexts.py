from pathlib import Path

import pytest

from kplan.errors import KubeconfigError
from kplan.live.kubeconfig import context_names, context_namespace
from kplan.live.options import LiveOptions

CONFIG = """
current-context: prod
contexts:
- {name: prod, context: {cluster: c, user: u, namespace: shop}}
- {name: dev, context: {cluster: c, user: u}}
"""


@pytest.fixture
def kubeconfig(tmp_path: Path) -> str:
    path = tmp_path / "config"
    path.write_text(CONFIG)
    return str(path)


def test_the_namespace_is_that_of_the_context(kubeconfig: str) -> None:
    assert context_namespace(LiveOptions(kubeconfig=kubeconfig)) == "shop"
    assert context_namespace(LiveOptions(kubeconfig=kubeconfig, context="dev")) == ""
    assert context_namespace(LiveOptions(kubeconfig=kubeconfig, context="none")) == ""


def test_contexts_are_listed_as_they_stand(kubeconfig: str) -> None:
    assert context_names(kubeconfig) == ["prod", "dev"]


def test_a_kubeconfig_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError):
        context_namespace(LiveOptions(kubeconfig=str(tmp_path / "none")))


def test_inside_a_pod_it_is_the_namespace_of_the_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "namespace"
    path.write_text("tools\n")
    monkeypatch.setattr("kplan.live.kubeconfig._DEFAULT_PATH", str(tmp_path / "none"))
    monkeypatch.setattr("kplan.live.kubeconfig._POD_NAMESPACE", str(path))

    assert context_namespace(LiveOptions()) == "tools"
    monkeypatch.setattr("kplan.live.kubeconfig._POD_NAMESPACE", str(tmp_path / "nowhere"))
    assert context_namespace(LiveOptions()) == ""
