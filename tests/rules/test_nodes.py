"""Names of node groups, in full and in short."""

import pytest

from kplan.api.core import Node, NodeSpec
from kplan.api.meta import ObjectMeta
from kplan.api.provisioning import NodeClaim, NodeClaimStatus
from kplan.rules.nodes import as_part_of_node_name, claims_left, short_group_name, short_group_names

GKE = "https://www.googleapis.com/compute/v1/projects/acme/zones/europe-west1-{}/instanceGroups/gke-prod-web-1a2b-grp"
EKS = "eks-web-9ac5b1d2-6c3e-1f4a-77bd-0a1b2c3d4e5f"


@pytest.mark.parametrize(
    ("name", "short", "part"),
    [
        ("general", "general", "general"),
        (GKE.format("b"), "gke-prod-web-1a2b-grp", "gke-prod-web-1a2b-grp"),
        (EKS, "eks-web", "eks-web"),
        ("MachineDeployment/default/prod-md-0", "prod-md-0", "prod-md-0"),
        ("eksctl-prod-nodegroup-web-NodeGroup-1X", "eksctl-prod-nodegroup-web-NodeGroup-1X", None),
        ("nodes-a.k.example.com", "nodes-a.k.example.com", "nodes-a.k.example.com"),
        ("odd_name.-/", "odd_name.-", "odd-name"),
        ("/", "/", "group"),
    ],
)
def test_a_group_is_called_by_what_people_know_of_its_name(name: str, short: str, part: str | None) -> None:
    assert short_group_name(name) == short
    assert as_part_of_node_name(name) == (short.lower() if part is None else part)


def test_groups_of_one_name_are_told_apart_by_their_zones() -> None:
    names = [GKE.format("b"), GKE.format("c"), "a/web", "b/web", EKS]
    assert list(short_group_names(names).values()) == [
        "gke-prod-web-1a2b-grp of europe-west1-b",
        "gke-prod-web-1a2b-grp of europe-west1-c",
        "a/web",
        "b/web",
        "eks-web",
    ]


def claim(node: str, of: str) -> NodeClaim:
    return NodeClaim(metadata=ObjectMeta(name=f"of-{node}"), status=NodeClaimStatus(node_name=node, provider_id=of))


def test_a_claim_goes_with_the_node_of_its_name_or_of_its_machine() -> None:
    claims = [claim("a", "m-a"), claim("", "m-b"), claim("c", ""), claim("", "")]
    gone = [
        Node(metadata=ObjectMeta(name="a")),
        Node(metadata=ObjectMeta(name="b"), spec=NodeSpec(provider_id="m-b")),
        Node(metadata=ObjectMeta(name="d")),
    ]
    assert claims_left(claims, gone) == (claims[2], claims[3])
