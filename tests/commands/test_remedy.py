"""`kplan remedy` on the command line."""

from pathlib import Path

import pytest

from tests.cli.commands import printed, refused

FRAGMENTED = str(Path(__file__).parents[2] / "fixtures" / "fragmented.yaml")


def test_names_are_the_commands_alone() -> None:
    result = printed("remedy", "ml/train", "--snapshot", FRAGMENTED, "-o", "name")
    assert result.splitlines() == [
        "kubectl cordon gpu-1",
        "kubectl delete pod inference-0 -n ml --wait",
        "kubectl wait --for=jsonpath='{.status.readyReplicas}'=2 statefulset inference -n ml --timeout=10m",
        "kubectl uncordon gpu-1",
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nope/x"], "no pod nope/x"),
        (["ml/inference-0"], "ml/inference-0"),
        (["--only", "gossip"], "no kind of action: gossip"),
        (["--only", "moves", "--not", "moves"], "no kind of action is left"),
    ],
)
def test_what_cannot_be_asked_is_refused(arguments: list[str], words: str) -> None:
    said = refused("remedy", *arguments, "--snapshot", FRAGMENTED)
    assert words in said
    assert "internal error" not in said
