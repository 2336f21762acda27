from pathlib import Path

import pytest

from tests.cli.commands import written

WEB = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "1"}}}]}
"""


@pytest.fixture
def web(tmp_path: Path) -> Path:
    return written(tmp_path / "web.yaml", WEB)
