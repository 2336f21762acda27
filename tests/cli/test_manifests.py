"""Manifests as the command line names them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.commands import invoke

PODS = """\
apiVersion: v1
kind: Namespace
metadata: {name: anything}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: ml}
---
apiVersion: v1
kind: Pod
metadata: {name: one}
spec: {containers: [{name: c, image: i}]}
---
apiVersion: v1
kind: Pod
metadata:
  name: two
  namespace: ml
spec: {containers: [{name: c, image: i}]}
"""


@pytest.fixture
def pods(tmp_path: Path) -> Path:
    path = tmp_path / "pods.yaml"
    path.write_text(PODS)
    return path


@pytest.mark.parametrize("command", ["place", "plan", "preempt", "pods", "capacity"])
def test_objects_of_another_namespace_than_the_one_that_is_named_are_refused(pods: Path, command: str) -> None:
    result = invoke(command, pods, "--namespace", "shop")

    assert (result.exit_code, result.stdout) == (2, "")
    words = " ".join(result.stderr.split())
    mismatch = 'the namespace from the provided object "ml" does not match the namespace "shop"'
    assert words.count(mismatch) == 2
    assert "(document 2, line 7): $.metadata.namespace:" in words
    assert "(document 4, line 18): $.metadata.namespace:" in words
    assert "hint: pass --namespace=ml, or leave --namespace out" in words


def test_objects_go_where_they_say_without_a_namespace_and_with_their_own(pods: Path, tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text(PODS.rsplit("---", maxsplit=1)[-1])

    assert invoke("pods", pods, "-o", "name").stdout == "pod/default/one\npod/ml/two\n"
    assert invoke("pods", own, "-n", "ml", "-o", "name").stdout == "pod/ml/two\n"
