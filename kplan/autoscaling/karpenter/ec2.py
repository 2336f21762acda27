"""Catalogues of the instance types of AWS, made of what its command line prints.

``aws ec2 describe-instance-types`` tells what machines have, ``describe-spot-price-history`` and ``aws pricing
get-products`` what they cost, ``describe-instance-type-offerings --location-type availability-zone`` where they are.
What pods cannot use of a machine is computed as Karpenter's AWS provider does by default: 7.5 % of the memory for the
hypervisor, the kubelet's reservation by size, and as many pods as network interfaces have addresses.

Upstream: karpenter-provider-aws pkg/providers/instancetype/types.go.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from kplan.api import decode
from kplan.autoscaling.karpenter.catalogue import offering_entry
from kplan.autoscaling.karpenter.instance_types import InstanceType, Overhead
from kplan.autoscaling.karpenter.requirements import ON_DEMAND, SPOT
from kplan.errors import InputError, Problem
from kplan.reading.documents import read_documents
from kplan.reading.files import Limits

_LIMITS = Limits(max_bytes=1024 << 20, max_stream_bytes=512 << 20, max_documents=10_000, max_depth=100)
_EXPECTED = "JSON from aws ec2 describe-instance-types, such as: aws ec2 describe-instance-types > types.json"
_LABEL = "karpenter.k8s.aws/instance-"
_NAME = re.compile(r"([a-z]++)(-[0-9]++tb)?+([0-9]++).*\.(.+)", re.ASCII)
_ARCHITECTURES = {"x86_64": "amd64", "arm64": "arm64"}
_MAKERS = {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu", "habana": "habana.ai/gaudi"}
_LINUX = frozenset({"Linux/UNIX", "Linux/UNIX (Amazon VPC)"})
_HYPERVISOR_SHARE = 0.075
_GRAVITON_MIB = 64
_DISK_GIB = 20
_POD_MIB, _KUBELET_MIB = 11, 255
_GUESSED_FACTOR = 2
_SPOT_SHARE = 0.4
_MIB_PER_CORE = 8192


class _Facts(msgspec.Struct):
    """What the answers of the command line hold."""

    types: dict[str, Mapping[str, Any]] = {}
    spot: dict[tuple[str, str], tuple[str, float]] = {}  #: (instance type, zone) -> when, and the price
    on_demand: dict[str, float] = {}
    zones: dict[str, set[str]] = {}


class Converted(msgspec.Struct, frozen=True):
    """A catalogue, and what is guessed in it."""

    entries: list[InstanceType]
    guesses: tuple[str, ...]


def convert_ec2(sources: Iterable[str | Path]) -> Converted:
    """Make a catalogue of files, each with one or several answers of the AWS command line; ``-`` is standard input.

    Raises InputError with all problems.
    """
    facts, problems = _Facts(), list[Problem]()
    for source in sources:
        for document in read_documents(source, problems, limits=_LIMITS, expected=_EXPECTED):
            try:
                content = document.value()
            except decode.DecodeError as error:
                problems += [document.locate(problem) for problem in error.problems]
                continue
            problems += [document.locate(problem) for problem in _collect(facts, content)]
    if not facts.types and not problems:
        problems.append(Problem("no instance types", hint=f"expected {_EXPECTED}"))
    if problems:
        raise InputError(problems)
    return _converted(facts)


def _collect(facts: _Facts, content: Any) -> Iterator[Problem]:
    """Take what an answer holds, and yield what is wrong with it."""
    readers = {
        "InstanceTypes": _take_type,
        "SpotPriceHistory": _take_spot_price,
        "PriceList": _take_product,
        "InstanceTypeOfferings": _take_offering,
    }
    parts = [key for key in readers if isinstance(content, dict) and isinstance(content.get(key), list)]
    if not parts:
        yield Problem("no answer of the AWS command line", json_path="$", hint=f"one of {', '.join(readers)}")
    for key in parts:
        for index, item in enumerate(content[key]):
            try:
                readers[key](facts, item)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                message = f"not as aws prints it: {type(error).__name__} {str(error)[:80]}"
                yield Problem(message, json_path=f"$.{key}[{index}]", hint=f"expected {_EXPECTED}")


def _take_type(facts: _Facts, item: Any) -> None:
    name = _text(item["InstanceType"])
    _machine_entry(name, item, {})  # checks it
    facts.types[name] = item


def _take_spot_price(facts: _Facts, item: Any) -> None:
    if item.get("ProductDescription", "Linux/UNIX") not in _LINUX:
        return
    place = _text(item["InstanceType"]), _text(item["AvailabilityZone"])
    moment = _text(item.get("Timestamp", ""))
    if place not in facts.spot or moment >= facts.spot[place][0]:
        facts.spot[place] = moment, _price(item["SpotPrice"])


def _take_product(facts: _Facts, item: Any) -> None:
    offer = json.loads(item) if isinstance(item, str) else item
    attributes = offer["product"]["attributes"]
    wanted = {"operatingSystem": "Linux", "tenancy": "Shared", "preInstalledSw": "NA", "capacitystatus": "Used"}
    if any(attributes.get(key, value) != value for key, value in wanted.items()) or "instanceType" not in attributes:
        return
    dimensions = chain.from_iterable(term["priceDimensions"].values() for term in offer["terms"]["OnDemand"].values())
    price = max((_price(dimension["pricePerUnit"]["USD"]) for dimension in dimensions), default=0.0)
    if price > 0:
        facts.on_demand[_text(attributes["instanceType"])] = price


def _take_offering(facts: _Facts, item: Any) -> None:
    facts.zones.setdefault(_text(item["InstanceType"]), set()).add(_text(item["Location"]))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _price(value: Any) -> float:
    price = float(value)
    if not math.isfinite(price) or price < 0:
        raise ValueError(f"{value!r} is no price")
    return price


def _converted(facts: _Facts) -> Converted:
    all_zones = {zone for _, zone in facts.spot} | {zone for zones in facts.zones.values() for zone in zones}
    guesses = {}
    entries = []
    for name in sorted(facts.types):
        item = facts.types[name]
        own_zones = facts.zones.get(name) or {zone for kind, zone in facts.spot if kind == name} or all_zones
        zones = sorted(own_zones) or ["unknown"]
        if zones == ["unknown"]:
            guesses["zones"] = "zones are unknown: replace the zone `unknown`, or add describe-instance-type-offerings"
        prices: dict[tuple[str, str], float] = {}
        on_demand = _on_demand_price(facts, name, item, guesses)
        usages = item.get("SupportedUsageClasses", [ON_DEMAND, SPOT])
        for zone in zones:
            if ON_DEMAND in usages:
                prices[zone, ON_DEMAND] = on_demand
            if SPOT in usages and (name, zone) in facts.spot:
                prices[zone, SPOT] = facts.spot[name, zone][1]
            elif SPOT in usages and not facts.spot:
                guesses["spot"] = f"spot prices are unknown: {_SPOT_SHARE:.0%} of the on-demand price is written"
                prices[zone, SPOT] = round(on_demand * _SPOT_SHARE, 6)
        entries.append(_machine_entry(name, item, prices))
    return Converted(entries, tuple(guesses.values()))


def _on_demand_price(facts: _Facts, name: str, item: Mapping[str, Any], guesses: dict[str, str]) -> float:
    if name in facts.on_demand:
        return facts.on_demand[name]
    spot = [price for (kind, _), (_, price) in facts.spot.items() if kind == name]
    if spot:
        guesses["on-demand"] = "some on-demand prices are unknown: twice the dearest spot price is written"
        return round(max(spot) * _GUESSED_FACTOR, 6)
    guesses["prices"] = "some prices are unknown: the size of the machine is written, which is no price"
    cores, memory = item["VCpuInfo"]["DefaultVCpus"], item["MemoryInfo"]["SizeInMiB"]
    return round(float(cores + memory / _MIB_PER_CORE), 3)


def _machine_entry(name: str, item: Mapping[str, Any], prices: Mapping[tuple[str, str], float]) -> InstanceType:
    cores, memory = int(item["VCpuInfo"]["DefaultVCpus"]), int(item["MemoryInfo"]["SizeInMiB"])
    supported, network = item["ProcessorInfo"]["SupportedArchitectures"], item["NetworkInfo"]
    architecture = next((_ARCHITECTURES[one] for one in supported if one in _ARCHITECTURES), str(supported[0]))
    usable = memory - (_GRAVITON_MIB if architecture == "arm64" else 0)
    usable -= math.ceil(usable * _HYPERVISOR_SHARE)
    pods = int(network["MaximumNetworkInterfaces"]) * (int(network["Ipv4AddressesPerInterface"]) - 1) + 2
    resources: dict[str, str | int | float] = {
        "cpu": str(cores),
        "memory": f"{usable}Mi",
        "ephemeral-storage": f"{_DISK_GIB}Gi",
        "pods": str(pods),
        **_devices(item),
    }
    return InstanceType(
        name=name,
        architecture=architecture,
        operating_systems=("linux",),
        resources=resources,
        offerings=tuple(offering_entry(zone, capacity_type, price) for (zone, capacity_type), price in prices.items()),
        overhead=Overhead(
            kube_reserved={
                "cpu": f"{_reserved_milli(cores)}m",
                "memory": f"{_POD_MIB * pods + _KUBELET_MIB}Mi",
                "ephemeral-storage": "1Gi",
            },
            eviction_threshold={"memory": "100Mi", "ephemeral-storage": f"{_DISK_GIB // 10}Gi"},
        ),
        labels=_labels(name, item, cores, memory),
    )


def _devices(item: Mapping[str, Any]) -> dict[str, str]:
    devices: dict[str, int] = {}
    for gpu in item.get("GpuInfo", {}).get("Gpus", ()):
        resource = _MAKERS.get(str(gpu.get("Manufacturer", "")).lower())
        if resource is not None:
            devices[resource] = devices.get(resource, 0) + int(gpu["Count"])
    neurons = sum(int(one["Count"]) for one in item.get("NeuronInfo", {}).get("NeuronDevices", ()))
    if neurons:
        devices["aws.amazon.com/neuron"] = neurons
    return {resource: str(count) for resource, count in devices.items()}


def _reserved_milli(cores: int) -> int:
    """Return the CPU that the kubelet keeps: 6 % of a core, 1 % of the next, 0.5 % of two more, 0.25 % of the rest."""
    milli = 0.0
    for core in range(1, cores + 1):
        milli += 60 if core == 1 else 10 if core == 2 else 5 if core <= 4 else 2.5
    return int(milli)


def _labels(name: str, item: Mapping[str, Any], cores: int, memory: int) -> dict[str, str]:
    family, _, size = name.partition(".")
    labels = {
        f"{_LABEL}family": family,
        f"{_LABEL}size": size,
        f"{_LABEL}cpu": str(cores),
        f"{_LABEL}memory": str(memory),
        f"{_LABEL}hypervisor": str(item.get("Hypervisor", "")),
    }
    match = _NAME.fullmatch(name)
    if match:
        labels |= {f"{_LABEL}category": match[1], f"{_LABEL}generation": match[3]}
    maker = item["ProcessorInfo"].get("Manufacturer")
    if maker:
        labels[f"{_LABEL}cpu-manufacturer"] = str(maker).lower()
    gpus = item.get("GpuInfo", {}).get("Gpus", ())
    if gpus:
        gpu = gpus[0]
        labels |= {
            f"{_LABEL}gpu-name": str(gpu["Name"]).lower().replace(" ", "-"),
            f"{_LABEL}gpu-manufacturer": str(gpu["Manufacturer"]).lower(),
            f"{_LABEL}gpu-count": str(gpu["Count"]),
            f"{_LABEL}gpu-memory": str(gpu["MemoryInfo"]["SizeInMiB"]),
        }
    return labels
