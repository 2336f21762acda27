from kplan.api.core import Node, NodeSpec
from kplan.api.meta import ObjectMeta
from kplan.api.provisioning import NodeClaim, NodeClaimStatus
from kplan.rules.nodes import claims_left


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
