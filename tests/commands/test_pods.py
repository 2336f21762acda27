"""`kplan pods`, as it is typed."""

from pathlib import Path

import pytest
import yaml

from tests.cli.commands import folder_of, invoke, refused, told, written
from tests.schemas import assert_keeps_to_its_schema

WEB = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}, annotations: {team: shop}}
    spec: {containers: [{name: c, image: nginx, resources: {limits: {cpu: "1"}}}]}
"""
CLUSTER = """\
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: 4, memory: 8Gi, pods: 9}}
---
apiVersion: v1
kind: LimitRange
metadata: {name: limits, namespace: default}
spec: {limits: [{type: Container, max: {cpu: "2"}, defaultRequest: {cpu: 100m}, default: {memory: 64Mi}}]}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: budget, namespace: default}
spec: {hard: {pods: "2"}}
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    return written(tmp_path / "cluster.yaml", CLUSTER)


@pytest.fixture
def web(tmp_path: Path) -> Path:
    return written(tmp_path / "web.yaml", WEB)


def test_pods_are_printed_as_they_would_be_stored(web: Path, cluster: Path) -> None:
    found = invoke("pods", web, "-s", cluster)
    first, refused = yaml.safe_load_all(found.stdout)

    assert found.exit_code == 1
    assert first["metadata"]["annotations"]["team"] == "shop"
    assert first["spec"]["containers"][0]["resources"] == {
        "limits": {"cpu": "1", "memory": "64Mi"},
        "requests": {"cpu": "1", "memory": "64Mi"},
    }
    assert refused is None
    assert f"# Deployment default/web, 2 pods ({web}, line 3)" in found.stdout
    assert "# spec.containers[0].resources.limits.memory 64Mi from LimitRange default/limits" in found.stdout
    assert 'refused: pods "web-2" is forbidden: exceeded quota: budget, requested: pods=1, used: pods=2' in found.stdout


def test_other_formats(web: Path, cluster: Path) -> None:
    table = invoke("pods", web, "-s", cluster, "-o", "table").stdout
    assert [line.split()[:5] for line in table.splitlines() if line.startswith("default")] == [
        ["default", "web-0", "Deployment/web", "2", "yes"],
        ["default", "web-2", "Deployment/web", "1", "no"],
    ]
    names = invoke("pods", web, "-s", cluster, "-o", "name")
    assert (names.exit_code, names.stdout) == (1, "pod/default/web-0\n")
    assert 'refused: Deployment default/web: pods "web-' in names.stderr
    assert "is forbidden: exceeded quota: budget" in names.stderr
    document = told("pods", web, "-s", cluster)
    assert_keeps_to_its_schema(document)
    assert document["summary"] == {"pods": 3, "refused": 1}


def test_what_is_taken_ends_well(web: Path) -> None:
    found = invoke("pods", web, "--replicas", "1", "-s", "demo", "-n", "shop")
    assert (found.exit_code, found.stderr) == (0, "")
    assert yaml.safe_load(found.stdout)["metadata"]["namespace"] == "shop"


def test_an_invalid_manifest_is_an_error_with_its_line(web: Path) -> None:
    web.write_text(WEB.replace("name: c,", "name: C,").replace("replicas: 3", "replicas: -3"))
    found = invoke("pods", web, "-s", "demo")
    assert (found.exit_code, found.stdout) == (2, "")
    assert f"{web} (document 1, line 5): $.spec.replicas: Invalid value: -3: must be greater than" in found.stderr
    assert "(document 1, line 9): $.spec.template.spec.containers[0].name: Invalid value" in found.stderr
    assert "hint: kubectl explain deployment.spec.replicas describes this field" in found.stderr


def test_fields_that_stand_twice_or_are_misspelt(web: Path) -> None:
    web.write_text(WEB.replace("  replicas: 3", "  replicas: 3\n  replicsa: 1\n  replicas: 2"))
    said = refused("pods", web, "-s", "demo")
    assert 'line 6): $.spec.replicsa: unknown field "spec.replicsa"' in said
    assert "did you mean replicas?" in said
    warned = invoke("pods", web, "-s", "demo", "--validate", "warn")
    assert warned.exit_code == 0
    assert 'unknown field "spec.replicsa"' in warned.stderr
    assert "Deployment/default/web: spec.replicas is written twice (line 7); the last one counts" in warned.stderr
    assert invoke("pods", web, "-s", "demo", "--validate", "ignore").stderr == ""


def test_a_kustomization_is_built_where_a_program_is_there(
    tmp_path: Path, web: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "overlay"
    folder.mkdir()
    (folder / "kustomization.yaml").write_text("resources: [../web.yaml]\n")
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    without = invoke("pods", "-k", folder, "-s", "demo")
    assert (without.exit_code, without.stdout) == (2, "")
    assert f"hint: run it where one is: kustomize build {folder} | kplan place -" in without.stderr

    kubectl = written(
        programs / "kubectl",
        f'#!/bin/sh\n[ "$1 $2" = "kustomize {folder}" ] || {{ echo no such thing >&2; exit 1; }}\n',
    )
    with kubectl.open("a") as script:
        script.write(f"exec /bin/cat {web}\n")
    kubectl.chmod(0o755)
    built = invoke("pods", "-k", folder, "-s", "demo", "-o", "name")
    assert (built.exit_code, built.stdout) == (0, "pod/default/web-0\n")
    assert "kubectl cannot build it: no such thing" in invoke("pods", "-k", tmp_path, "-s", "demo").stderr
    assert "no such directory" in invoke("pods", "-k", tmp_path / "gone", "-s", "demo").stderr


def test_a_directory_as_people_keep_it(tmp_path: Path) -> None:
    files = {
        "web.yaml": WEB,
        "chart/Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.0.0\n",
        "chart/values.yaml": "replicas: 3\n",
        "chart/templates/web.yaml": WEB.replace("name: web}", 'name: "{{ .Release.Name }}"}'),
        "package.json": '{"name": "web"}',
        "base/kustomization.yaml": "resources: [web.yaml]\n",
        "rendered.yaml": "{{- if .Values.on }}\nkind: Pod\n{{- end }}\n",
        "alerts.yaml": "apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nmetadata: {name: a}\n",
    }
    folder = folder_of(tmp_path / "repository", files)

    found = invoke("pods", folder, "-s", "demo", "-o", "name", "-v")
    assert (found.exit_code, found.stdout) == (0, "pod/default/web-0\n")
    for name in ("Chart.yaml", "values.yaml", "package.json", "kustomization.yaml", "rendered.yaml"):
        assert name in found.stderr
    assert f"a template of a chart; render it with helm template {folder / 'chart'}" in found.stderr
    assert f"a kustomization; build it with -k {folder / 'base'}" in found.stderr
    assert "PrometheusRule 1" in found.stderr
    assert "passed over" not in invoke("pods", folder, "-s", "demo", "-q").stderr
    for name in ("chart/values.yaml", "package.json", "rendered.yaml"):
        alone = invoke("pods", folder / name, "-s", "demo")
        assert alone.exit_code == 2, name


def test_settings_of_other_tools_may_speak_of_kinds_in_a_directory(tmp_path: Path) -> None:
    files = {
        "web.yaml": WEB,
        "ci/daemonset-values.yaml": "controller:\n  kind: DaemonSet\n  image: {tag: x}\n",
        "exceptions.json": '[{"name": "a", "resources": [{"kind": "Deployment"}]}]',
        "settings.yaml": "kind: pipeline\nname: build\n",
    }
    found = invoke("pods", folder_of(tmp_path, files), "-s", "demo", "-o", "name")
    assert (found.exit_code, found.stdout) == (0, "pod/default/web-0\n")
    for name in ("daemonset-values.yaml", "exceptions.json", "settings.yaml"):
        assert name in found.stderr
        assert invoke("pods", next(tmp_path.rglob(name)), "-s", "demo").exit_code == 2

    (tmp_path / "half.yaml").write_text("kind: Pod\nmetadata: {name: a}\n")
    assert "half.yaml" in refused("pods", tmp_path, "-s", "demo")
