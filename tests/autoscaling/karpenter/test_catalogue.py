"""Catalogues are read in kwok's format or from AWS, and refused with the place of each mistake."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

import kplan
from kplan.autoscaling.karpenter.catalogue import MOST_TYPES, learned_catalogue, plain_entries, read_catalogue
from kplan.autoscaling.karpenter.ec2 import Converted, convert_ec2
from kplan.autoscaling.karpenter.instance_types import InstanceType
from kplan.autoscaling.karpenter.requirements import INSTANCE_TYPE
from tests.objects import head

TYPE: dict[str, Any] = {
    "name": "m.large",
    "architecture": "amd64",
    "operatingSystems": ["linux"],
    "resources": {"cpu": "2", "memory": "8Gi"},
    "offerings": [{"zone": "a", "capacityType": "spot", "price": 0.1}],
}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([TYPE] * (MOST_TYPES + 1), "at most"),
        ({}, "no list of instance types"),
    ],
)
def test_other_content_is_refused(content: Any, message: str, tmp_path: Path) -> None:
    file = tmp_path / "types.yaml"
    file.write_text(json.dumps(content))
    with pytest.raises(kplan.InputError, match=re.escape(message)):
        read_catalogue(file)


def test_types_are_learned_from_nodes_and_from_claims_whose_node_is_missing_or_says_nothing() -> None:
    machines: dict[str, dict[str, Any] | None] = {"alone": None, "runs": {"capacity": {"cpu": "5"}}, "starts": {}}
    objects = []
    for name, own in machines.items():
        labels = {INSTANCE_TYPE: name}
        claimed = {"status": {"providerID": name, "capacity": {"cpu": "4"}}}
        objects.append(head("NodeClaim", name=name, labels=labels) | claimed)
        if own is not None:
            objects.append(head("Node", name=name, labels=labels) | {"spec": {"providerID": name}, "status": own})
    learned = learned_catalogue(kplan.load_snapshot(objects))
    assert {one.name: one.resources["cpu"] for one in learned} == {"alone": "4", "runs": "5", "starts": "4"}


HERE = Path(__file__).parents[3] / "fixtures" / "karpenter"
GIB = 2**30 * 10**9


def converted(*names: str) -> Converted:
    return convert_ec2([HERE / f"{name}.json" for name in names])


def entry(catalogue: Converted, name: str) -> InstanceType:
    return next(one for one in catalogue.entries if one.name == name)


def prices(one: InstanceType) -> dict[tuple[str, ...], float]:
    return {
        tuple(value for wanted in offering.requirements for value in wanted.values): offering.price
        for offering in one.offerings
    }


def test_a_machine_keeps_what_hypervisor_and_kubelet_leave() -> None:
    large = entry(converted("instance-types"), "m7i.large")
    allocatable = large.allocatable

    # 8192 MiB less 7.5 %, less 11 MiB for each of 29 pods, 255 MiB and the threshold of 100 MiB.
    assert large.resources["memory"] == "7577Mi"
    assert allocatable["memory"] == (7577 - 11 * 29 - 255 - 100) * 2**20 * 10**9
    assert allocatable["cpu"] == 1930 * 10**6
    assert allocatable["pods"] == 29 * 10**9
    assert allocatable["ephemeral-storage"] == 17 * GIB


def test_the_newest_linux_price_of_a_zone_counts() -> None:
    large = entry(converted("instance-types", "spot-prices", "products"), "m7i.large")
    assert prices(large) == {
        ("on-demand", "eu-west-1a"): 0.11235,
        ("spot", "eu-west-1a"): 0.0412,
        ("on-demand", "eu-west-1b"): 0.11235,
        ("spot", "eu-west-1b"): 0.0399,
    }


def test_a_price_that_is_unknown_is_guessed_in_the_open() -> None:
    catalogue = converted("instance-types", "spot-prices")
    assert prices(entry(catalogue, "c7g.xlarge")) == {
        ("on-demand", "eu-west-1a"): 0.1226,
        ("spot", "eu-west-1a"): 0.0613,
    }
    assert "some on-demand prices are unknown: twice the dearest spot price is written" in catalogue.guesses


def test_labels_are_those_of_the_provider() -> None:
    labels = entry(converted("instance-types"), "c7g.xlarge").labels
    assert labels["karpenter.k8s.aws/instance-category"] == "c"
    assert labels["karpenter.k8s.aws/instance-generation"] == "7"
    assert labels["karpenter.k8s.aws/instance-family"] == "c7g"
    assert labels["karpenter.k8s.aws/instance-cpu-manufacturer"] == "aws"


def test_what_is_written_can_be_read_again() -> None:
    catalogue = converted("instance-types", "spot-prices")
    assert read_catalogue(plain_entries(catalogue.entries)) == catalogue.entries


def test_one_stream_may_hold_several_answers(tmp_path: Path) -> None:
    both = tmp_path / "both.json"
    both.write_text("".join((HERE / f"{name}.json").read_text() for name in ("instance-types", "spot-prices")))
    assert convert_ec2([both]) == converted("instance-types", "spot-prices")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"InstanceTypes": [{"InstanceType": "m7i.large"}]}, "$.InstanceTypes[0]"),
        ({"InstanceTypes": [{"InstanceType": 7}]}, "is no text"),
        ({"SpotPriceHistory": [{"InstanceType": "a", "AvailabilityZone": "z", "SpotPrice": "NaN"}]}, "is no price"),
        ({"Reservations": []}, "no answer of the AWS command line"),
        ({"InstanceTypes": []}, "no instance types"),
    ],
)
def test_other_answers_of_aws_are_refused(content: object, message: str, tmp_path: Path) -> None:
    file = tmp_path / "other.json"
    file.write_text(json.dumps(content))
    with pytest.raises(kplan.InputError) as refused:
        convert_ec2([file])
    assert message in str(refused.value)


def test_without_any_price_the_size_of_the_machine_stands_in(tmp_path: Path) -> None:
    odd = (HERE / "instance-types.json").read_text().replace('"SizeInMiB": 8192', '"SizeInMiB": 8199')
    (tmp_path / "types.json").write_text(odd)
    catalogue = convert_ec2([tmp_path / "types.json"])
    assert 5.001 in prices(entry(catalogue, "c7g.xlarge")).values()
    assert "some prices are unknown: the size of the machine is written, which is no price" in catalogue.guesses
