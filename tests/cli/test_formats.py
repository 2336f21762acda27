"""Documents as data, on every command that prints JSON."""

import json

import pytest

from tests.cli.commands import invoke, printed

PODS = '{range .placements[*]}{.pod.namespace}/{.pod.name} {.node}{"\\n"}{end}'


def test_a_template_picks_what_it_names() -> None:
    found = printed("place", "shop/voucher-api", "ml/llm-eval", "-o", f"jsonpath={PODS}", code=1)
    assert found == "shop/voucher-api general-a-2\nml/llm-eval null\n"


@pytest.mark.parametrize(
    ("args", "template"),
    [
        (("plan",), "{.summary.placed}"),
        (("preempt",), "{.summary.pods}"),
        (("explain", "ml/llm-eval"), "{.placements[0].outcome}"),
        (("drain", "general-a-1"), "{.summary.moved}"),
        (("snapshot", "show", "demo"), "{.nodes.total}"),
        (("snapshot", "check", "demo"), "{.valid}"),
        (("snapshot", "rbac"), "{.kind}"),
        (("config", "show"), "{.kubernetesVersion}"),
    ],
)
def test_it_says_what_stands_in_the_json_document(args: tuple[str, ...], template: str) -> None:
    value = json.loads(invoke(*args, "-o", "json").stdout)
    for key in template.strip("{}.").replace("[0]", ".0").split("."):
        value = value[int(key) if key.isdigit() else key]
    written = value if isinstance(value, str) else json.dumps(value)

    assert invoke(*args, "-o", f"jsonpath={template}").stdout == written


def test_formats_may_follow_an_equals_sign_as_kubectl_has_it() -> None:
    assert json.loads(invoke("snapshot", "show", "demo", "-o=json").stdout)["kind"] == "SnapshotOverview"
    assert invoke("snapshot", "show", "demo", "-o=jsonpath={.kind}").stdout == "SnapshotOverview"
    assert invoke("snapshot", "show", "demo", "-o=xml").exit_code == 2
