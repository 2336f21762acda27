"""`kplan remedy` on the command line."""

from pathlib import Path

from tests.cli.commands import printed

FRAGMENTED = str(Path(__file__).parents[2] / "fixtures" / "fragmented.yaml")


def test_names_are_the_commands_alone() -> None:
    result = printed("remedy", "ml/train", "--snapshot", FRAGMENTED, "-o", "name")
    assert result.splitlines() == [
        "kubectl cordon gpu-1",
        "kubectl delete pod inference-0 -n ml --wait",
        "kubectl wait --for=jsonpath='{.status.readyReplicas}'=2 statefulset inference -n ml --timeout=10m",
        "kubectl uncordon gpu-1",
    ]
