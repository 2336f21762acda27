"""Configurations that kube-scheduler refuses: the path, what is wrong and what to write instead.

The words are upstream's where it has some: apis/config/validation/*_test.go, scheme_test.go, framework_test.go (v1.36).
"""

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kplan.config import load_scheduler_config
from kplan.errors import ConfigError, Problem

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def problems_of(tmp_path: Path, text: str) -> list[tuple[str, str, str]]:
    path = tmp_path / "scheduler.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_scheduler_config(str(path))
    assert {problem.path for problem in caught.value.problems} == {str(path)}
    return [(problem.json_path, problem.message, problem.hint) for problem in caught.value.problems]


def cases(name: str) -> Iterator[Any]:
    """Yield the cases of a file beside this one: a document, and the parts of each problem."""
    for case in (Path(__file__).parent / name).read_text().split("\n## ")[1:]:
        sentence, *lines = case.strip().splitlines()
        document = "\n".join(line for line in lines if not line.startswith("=> "))
        wanted = [line.removeprefix("=> ").split(" | ") for line in lines if line.startswith("=> ")]
        yield pytest.param(document, wanted, id=sentence)


@pytest.mark.parametrize(("document", "wanted"), list(cases("refused.txt")))
def test_a_broken_configuration_names_every_problem(tmp_path: Path, document: str, wanted: list[list[str]]) -> None:
    found = problems_of(tmp_path, HEAD + document)
    assert [path for path, _, _ in found] == [path for path, _, _ in wanted]
    for (_, message, hint), (_, message_part, hint_part) in zip(found, wanted, strict=True):
        assert message_part in message
        assert hint_part in hint


@pytest.mark.parametrize(("document", "wanted"), list(cases("refused_args.txt")))
def test_arguments(document: str, wanted: list[list[str]], request: pytest.FixtureRequest) -> None:
    plugin = request.node.callspec.id.partition(":")[0]
    profile = {"pluginConfig": [{"name": plugin, "args": yaml.safe_load(document)}]}
    problems: tuple[Problem, ...] = ()
    try:
        load_scheduler_config({**yaml.safe_load(HEAD), "profiles": [profile]}, kubernetes="1.36")
    except ConfigError as error:
        problems = error.problems

    assert [one.json_path for one in problems] == [f"profiles[0].pluginConfig[0].args.{path}" for path, _ in wanted]
    for problem, (_, message) in zip(problems, wanted, strict=True):
        assert message in problem.message
        assert problem.hint


#: Sentence -> (whole document, path, part of the message, part of the hint)
FOREIGN = {
    "version v1beta3": (
        "apiVersion: kubescheduler.config.k8s.io/v1beta3\nkind: KubeSchedulerConfiguration", "apiVersion",
        'no kind "KubeSchedulerConfiguration" is registered for version "kubescheduler.config.k8s.io/v1beta3"',
        "write: apiVersion: kubescheduler.config.k8s.io/v1; v1beta3 is gone since Kubernetes 1.29",
    ),
    "a version of nothing": (
        "apiVersion: kubescheduler.config.k8s.io/v7\nkind: KubeSchedulerConfiguration", "apiVersion",
        'is registered for version "kubescheduler.config.k8s.io/v7"',
        "write: apiVersion: kubescheduler.config.k8s.io/v1",
    ),
    "a version that is no text": (
        "apiVersion: 1\nkind: KubeSchedulerConfiguration", "apiVersion", "is registered for version 1",
        "write: apiVersion: kubescheduler.config.k8s.io/v1",
    ),
    "no kind": ("apiVersion: kubescheduler.config.k8s.io/v1", "kind", "Object 'Kind' is missing", "add: kind:"),
    "no version": ("kind: KubeSchedulerConfiguration", "apiVersion", "Object 'apiVersion' is missing", "add: "),
    "another kind of the group": (
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: NodeAffinityArgs", "kind",
        'expected KubeSchedulerConfiguration, got "NodeAffinityArgs"', "write: kind: KubeSchedulerConfiguration",
    ),
    "a policy file of old": (
        '{"kind": "Policy", "apiVersion": "v1"}', "kind", "scheduler policies are gone", "profiles",
    ),
    "a list": ("- a\n- b", "", "expected an object with apiVersion and kind, got a list", "begin with"),
    "a single value": ("hello", "", "expected an object with apiVersion and kind, got a single value", "begin with"),
    "a config map without a configuration": (
        "apiVersion: v1\nkind: ConfigMap\ndata: {a: b}", "kind",
        "no key of its data holds a KubeSchedulerConfiguration", "begin with",
    ),
    "a file of another kind": ("apiVersion: v1\nkind: Service", "kind", 'got "Service"', "write: kind:"),
    "a pod that has nothing to do with it": (
        "apiVersion: v1\nkind: Pod\nspec: {containers: [{name: a, image: nginx}]}", "kind",
        "this is a Pod, not a KubeSchedulerConfiguration", "begin with",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "path", "message", "hint"), FOREIGN.values(), ids=FOREIGN)
def test_a_document_that_is_no_configuration_says_what_it_is(
    tmp_path: Path, text: str, path: str, message: str, hint: str
) -> None:
    found = problems_of(tmp_path, text)[0]
    assert found[0] == path
    assert message in found[1]
    assert hint in found[2]


def test_the_rest_of_a_v1beta3_file_is_checked_too(tmp_path: Path) -> None:
    text = "apiVersion: kubescheduler.config.k8s.io/v1beta3\nkind: KubeSchedulerConfiguration\nparallelism: 0"
    assert [path for path, _, _ in problems_of(tmp_path, text)] == ["apiVersion", "parallelism"]


def test_a_config_map_says_which_key_holds_the_configuration(tmp_path: Path) -> None:
    text = """
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: scheduler, namespace: sched}
    data:
      notes: nothing here
      scheduler-config.yaml: |
        apiVersion: kubescheduler.config.k8s.io/v1
        kind: KubeSchedulerConfiguration
    """

    command = r"kubectl -n sched get configmap scheduler -o jsonpath='{.data.scheduler-config\.yaml}'"
    assert problems_of(tmp_path, textwrap.dedent(text)) == [
        (
            'data["scheduler-config.yaml"]',
            'this is a ConfigMap; the configuration is the text under its key "scheduler-config.yaml"',
            f"take it out: {command} > scheduler.yaml",
        )
    ]


def test_a_list_around_the_config_map_is_looked_into(tmp_path: Path) -> None:
    text = """
    apiVersion: v1
    kind: List
    items:
    - {apiVersion: v1, kind: ConfigMap, data: {x: y}}
    - apiVersion: v1
      kind: ConfigMap
      data: {config: '{"kind": "KubeSchedulerConfiguration"}'}
    """

    ((path, _, _),) = problems_of(tmp_path, textwrap.dedent(text))

    assert path == 'data["config"]'


STATIC_POD = """
apiVersion: v1
kind: Pod
metadata: {name: kube-scheduler, namespace: kube-system}
spec:
  containers:
  - name: kube-scheduler
    image: registry.k8s.io/kube-scheduler:v1.36.2
    command: [kube-scheduler, --leader-elect=true, FLAG]
    volumeMounts:
    - {name: config, mountPath: /etc/kubernetes/scheduler}
  volumes:
  - {name: config, VOLUME}
"""

MANIFESTS = {
    "a file on the host": (
        "--config=/etc/kubernetes/scheduler/config.yaml", "hostPath: {path: /srv/sched}",
        "its --config names /etc/kubernetes/scheduler/config.yaml", "--scheduler-config /srv/sched/config.yaml",
    ),
    "a file in a ConfigMap": (
        "--config, /etc/kubernetes/scheduler/config.yaml", "configMap: {name: my-scheduler}",
        "its --config names /etc/kubernetes/scheduler/config.yaml",
        r"kubectl -n kube-system get configmap my-scheduler -o jsonpath='{.data.config\.yaml}'",
    ),
    "a file of the image": (
        "--config=/config.yaml", "hostPath: {path: /srv/sched}", "its --config names /config.yaml",
        "pass that file: --scheduler-config /config.yaml",
    ),
    "no --config": ("--v=2", "hostPath: {path: /srv/sched}", "it has no --config", "leave --scheduler-config out"),
}  # fmt: skip


@pytest.mark.parametrize(("flag", "volume", "message", "hint"), MANIFESTS.values(), ids=MANIFESTS)
def test_the_static_pod_manifest_says_where_its_configuration_is(
    tmp_path: Path, flag: str, volume: str, message: str, hint: str
) -> None:
    text = STATIC_POD.replace("FLAG", flag).replace("VOLUME", volume)
    ((path, found, found_hint),) = problems_of(tmp_path, text)
    assert path == "kind"
    assert found.startswith("this is the manifest of kube-scheduler (Pod kube-system/kube-scheduler)")
    assert message in found
    assert hint in found_hint


def test_a_deployment_of_a_second_scheduler_is_recognised(tmp_path: Path) -> None:
    text = """
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: second}
    spec: {template: {spec: {containers: [{name: s, args: [--config=/c.yaml]}]}}}
    """
    ((_, message, _),) = problems_of(tmp_path, textwrap.dedent(text))
    assert message.endswith("its --config names /c.yaml")
