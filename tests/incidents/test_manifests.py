"""What a pipeline gives to kplan is never green in silence."""

import pytest

from tests.cli.commands import invoke
from tests.incidents.asking import HERE

DEPLOY = HERE / "manifests" / "deploy"


@pytest.mark.parametrize("output", ["table", "wide", "json", "yaml", "markdown", "junit", "github", "sarif", "html"])
@pytest.mark.parametrize("command", ["place", "plan"])
def test_a_rollout_is_told_in_every_format(command: str, output: str) -> None:
    result = invoke(command, DEPLOY / "base", DEPLOY / "rollout.yaml", "-o", output, "--fail-on", "warning")
    assert result.exit_code == 1
    assert "--as-deployment Rollout" in " ".join(result.stdout.split())


def test_the_pods_of_a_rollout_can_be_placed() -> None:
    result = invoke("place", DEPLOY / "rollout.yaml", "--as-deployment", "Rollout")
    assert "Deployment shop/canary: 4 of 5 replicas" in result.stdout
