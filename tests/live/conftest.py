from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from kplan.live import LiveOptions

from .server import ApiServer, Cluster, kubeconfig, serving

#: The beginning of every scheduler configuration.
CONFIGURATION = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}

#: Starts a server for a cluster and returns it with options that lead there.
Start = Callable[..., tuple[ApiServer, LiveOptions]]


@pytest.fixture(autouse=True)
def _no_surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep the machine's own cluster, proxies and home out of the tests."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "KPLAN_SNAPSHOT"):
        monkeypatch.delenv(name, raising=False)
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with ExitStack() as stack:

        def run(cluster: Cluster | None = None, **settings: Any) -> tuple[ApiServer, LiveOptions]:
            server_settings = {key: settings.pop(key) for key in ("certificate", "tls") if key in settings}
            written = {key: settings.pop(key) for key in ("token", "user", "authority") if key in settings}
            extra = settings.pop("cluster_entry", None)
            api = stack.enter_context(serving(cluster or Cluster(), **server_settings))
            path = kubeconfig(tmp_path, api.url, cluster=extra, **written)
            return api, LiveOptions(kubeconfig=str(path), **settings)

        yield run
