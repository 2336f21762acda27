"""Karpenter's kinds: what is read, filled in, refused and redacted."""

from typing import Any

import pytest

import kplan
from kplan.snapshot.redact import redact_snapshot
from tests.objects import head

MACHINE = "aws:///eu-west-1a/i-0123"


def node_pool(**spec: Any) -> dict[str, Any]:
    template = {
        "metadata": {"labels": {"team": "payments"}, "annotations": {"secret": "word"}},
        "spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "private"},
            "requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}],
        },
    }
    return head("NodePool", name="general", annotations={"karpenter.sh/nodepool-hash": "7", "note": "hush"}) | {
        "spec": {"template": template, **spec}
    }


def node_claim() -> dict[str, Any]:
    return head("NodeClaim", name="general-x", labels={"karpenter.sh/nodepool": "general"}) | {
        "spec": {},
        "status": {"nodeName": "ip-1", "providerID": MACHINE},
    }


def node() -> dict[str, Any]:
    return head("Node", name="ip-1", annotations={"karpenter.sh/do-not-disrupt": "true"}) | {
        "spec": {"providerID": MACHINE},
        "status": {"allocatable": {"cpu": "4"}},
    }


def test_a_node_pool_gets_the_defaults_of_its_crd() -> None:
    (pool,) = kplan.load_snapshot([node_pool()]).node_pools
    assert pool.spec.template.spec.expire_after == "720h"
    assert pool.spec.disruption.consolidate_after == "0s"
    assert pool.spec.disruption.consolidation_policy == "WhenEmptyOrUnderutilized"
    assert [budget.nodes for budget in pool.spec.disruption.budgets or ()] == ["10%"]
    assert pool.metadata.annotations == {"karpenter.sh/nodepool-hash": "7"}, "annotations of others are not kept"


@pytest.mark.parametrize("limits", [{"cpu": "many"}, {"nodes": "1e"}])
def test_a_limit_that_is_no_quantity_is_refused(limits: dict[str, str]) -> None:
    with pytest.raises(kplan.SnapshotError, match=r"spec\.limits.*is not a quantity"):
        kplan.load_snapshot([node_pool(limits=limits)])


def test_a_redacted_claim_still_belongs_to_its_node_and_pool() -> None:
    redacted = redact_snapshot(kplan.load_snapshot([node_pool(), node_claim(), node()]))
    (claim,), (pool,), (machine,) = redacted.node_claims, redacted.node_pools, redacted.nodes
    assert claim.status.provider_id == machine.spec.provider_id != MACHINE
    assert claim.status.node_name == machine.metadata.name != "ip-1"
    assert claim.metadata.labels["karpenter.sh/nodepool"] == pool.metadata.name != "general"
    assert pool.spec.template.metadata.annotations == {}
    assert pool.spec.template.metadata.labels["team"] != "payments"
    assert pool.spec.template.spec.node_class_ref.name != "private"
    assert machine.metadata.annotations.do_not_disrupt == "true"
