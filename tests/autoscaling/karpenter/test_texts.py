"""What Karpenter says of pods that it makes no node for, in its words."""

from kplan.autoscaling.karpenter.requirements import Vocabulary
from kplan.autoscaling.karpenter.texts import PoolRefusal, Texts
from kplan.autoscaling.karpenter.topology import Type, Unsatisfiable


def test_domains_beyond_the_first_25_are_counted() -> None:
    counts = tuple((f"z{number}", 1) for number in range(27))
    refusal = Unsatisfiable(Type.SPREAD, "zone", counts, pod=None, node=None, hostname="")
    (text,) = Texts(Vocabulary(())).of_pool(PoolRefusal("p", refusal))
    assert "z24: 1 and 2 other(s), podDomains = zone Exists, nodeDomains = zone Exists" in text
    assert "z25" not in text
