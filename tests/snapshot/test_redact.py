import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import inspect

import kplan
from kplan.api.kinds import KINDS
from kplan.autoscaling.cluster_autoscaler.setup import setup_of
from kplan.facts import MissingKind
from kplan.snapshot import load_snapshot, redact
from kplan.snapshot.model import Snapshot, Warning  # noqa: A004 - the contract's word
from kplan.snapshot.own_file import encode_snapshot
from kplan.snapshot.pseudonyms import Pseudonyms, Words
from kplan.snapshot.redact import FIELD_RULES, KEPT_ANNOTATIONS, KEPT_FIELDS, RULES, STRUCT_RULES, redact_snapshot
from tests.objects import head
from tests.remedies.everyday import selecting


def structs_below(type_info: inspect.Type, seen: set[type]) -> Iterator[type]:
    """Yield every struct that an object can hold."""
    if isinstance(type_info, inspect.UnionType):
        for kind in type_info.types:
            yield from structs_below(kind, seen)
    elif isinstance(type_info, inspect.VarTupleType):
        yield from structs_below(type_info.item_type, seen)
    elif isinstance(type_info, inspect.DictType):
        yield from structs_below(type_info.value_type, seen)
    elif isinstance(type_info, inspect.StructType) and type_info.cls not in seen:
        seen.add(type_info.cls)
        yield type_info.cls
        for field in type_info.fields:
            yield from structs_below(field.type, seen)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_text_of_every_kind_has_a_rule(kind: Any) -> None:
    """The rules are compiled per struct, and a text without one is refused then."""
    for struct in structs_below(inspect.type_info(kind.type), set()):
        redact._steps(struct)


class Planted:
    """Fills every text of every struct that an object can hold with a text of its own."""

    def __init__(self) -> None:
        self.texts: dict[str, tuple[type, str]] = {}  #: where each planted text stands
        self._within: list[type] = []

    def struct(self, struct: type) -> Any:
        """Return a struct that is filled as deeply as it goes without repeating itself."""
        self._within.append(struct)
        fields = inspect.type_info(struct).fields  # type: ignore[attr-defined]  # a StructType
        found = {field.name: self.value(field.type, struct, field.name) for field in fields}
        self._within.pop()
        return struct(**{name: value for name, value in found.items() if value is not None})

    def value(self, kind: Any, struct: type, field: str) -> Any:
        match kind:
            case inspect.UnionType():
                if any(isinstance(one, inspect.IntType | inspect.FloatType) for one in kind.types):
                    return 1  # an amount, whose text is a quantity
                kinds = sorted(kind.types, key=lambda one: isinstance(one, inspect.NoneType))
                texts_first = sorted(kinds, key=lambda one: not isinstance(one, inspect.StrType))
                return next((v for one in texts_first if (v := self.value(one, struct, field)) is not None), None)
            case inspect.StrType():
                text = f"acme{len(self.texts):05d}"
                # A reference is named after its kind, and labels and taints of new nodes are read out of one text.
                if field == "labels" and struct.__name__ == "ScalableAnnotations":
                    text = f"team={text}"
                elif field == "taints":
                    text = f"team={text}:NoSchedule"
                self.texts[text.removeprefix("team=").removesuffix(":NoSchedule")] = (struct, field)
                return text
            case inspect.StructType():
                return None if kind.cls in self._within else self.struct(kind.cls)
            case inspect.VarTupleType():
                item = self.value(kind.item_type, struct, field)
                return None if item is None else (item,)
            case inspect.DictType():
                item = self.value(kind.value_type, struct, field)
                if field == "disrupted_pods":
                    return {item: "2026-01-01T00:00:00Z"}
                keys = KEPT_ANNOTATIONS if field == "annotations" else ["acme.example/key"]
                return None if item is None else dict.fromkeys(keys, item)
        return None


def survivors(value: Any) -> Iterator[str]:
    """Yield every text in a struct."""
    if isinstance(value, msgspec.Struct):
        for field in value.__struct_fields__:
            yield from survivors(getattr(value, field))
    elif isinstance(value, dict | tuple):
        for item in value.items() if isinstance(value, dict) else value:
            yield from survivors(item)
    elif isinstance(value, str):
        yield value


def planted_and_redacted() -> Iterator[tuple[Planted, set[str]]]:
    for kind in KINDS:
        if kind.name == "CSIDriver":
            continue  # drivers keep their names, which claims and volumes repeat
        planted = Planted()
        obj = planted.struct(kind.type)
        names = Pseudonyms(b"k" * 32)
        words = Words(names)
        redact._redact(obj, words)
        names.seal()
        yield planted, set(survivors(redact._redact(obj, words)))


KEPT_BY_RULE = {place for place, rule in RULES.items() if rule is redact._keep}
"""Fields of that struct alone that stay as they are."""


def test_a_text_planted_anywhere_stays_only_where_a_rule_keeps_it() -> None:
    for planted, left in planted_and_redacted():
        for text, (struct, field) in planted.texts.items():
            is_kept = field in KEPT_FIELDS or (struct, field) in KEPT_BY_RULE or field == "annotations"
            assert is_kept or not any(text in other for other in left), (struct, field)


def test_every_rule_meets_a_planted_text(monkeypatch: pytest.MonkeyPatch) -> None:
    met: set[Any] = set()

    def watched(name: Any, rule: Any) -> Any:
        def step(words: Words, value: Any) -> Any:
            met.add(name)
            return rule(words, value)

        return step

    redact._steps.cache_clear()
    for rules in (RULES, FIELD_RULES):
        for name, rule in rules.items():
            monkeypatch.setitem(rules, name, watched(name, rule))
    for struct, rule in STRUCT_RULES.items():
        monkeypatch.setitem(STRUCT_RULES, struct, rule._replace(change=watched(struct, rule.change)))
    try:
        for _ in planted_and_redacted():
            pass
    finally:
        redact._steps.cache_clear()
    assert {*RULES, *FIELD_RULES, *STRUCT_RULES} - met == set()


def test_local_volumes_and_new_nodes_keep_matching() -> None:
    """What annotations name is renamed as the things themselves are."""
    prefix = "capacity.cluster-autoscaler.kubernetes.io"
    annotations = {f"{prefix}/labels": "team=red,x", f"{prefix}/taints": "team=red:NoSchedule"}
    machines = head("MachineDeployment", name="md", namespace="shop", annotations=annotations)
    machines |= {"spec": {"clusterName": "c", "replicas": 1, "template": {}}}
    waiting = pod("p", volumes=[{"name": "scratch", "emptyDir": {}}], nodeSelector={"team": "red"})
    waiting["metadata"]["annotations"] = {"cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes": "scratch"}
    snapshot, _ = redacted(node("n"), machines, waiting)

    (found,) = snapshot.pods
    team = found.spec.node_selector["team"]
    assert found.metadata.annotations.safe_local_volumes == found.spec.volumes[0].name != "scratch"
    made = snapshot.machine_deployments[0].metadata.annotations
    assert (made.labels, made.taints) == (f"team={team}", f"team={team}:NoSchedule")


def test_a_text_without_a_rule_is_refused() -> None:
    class New(msgspec.Struct):
        nickname: str = ""

    with pytest.raises(TypeError, match=r"no rule says what redacting does with New\.nickname"):
        redact._steps(New)


NODE = {"apiVersion": "v1", "kind": "Node"}
POD = {"apiVersion": "v1", "kind": "Pod"}


def node(name: str, labels: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    own = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "topology.kubernetes.io/zone": "eu-1a"}
    status = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}} | more.pop("status", {})
    return NODE | {"metadata": {"name": name, "labels": own | (labels or {})}, "status": status, **more}


def pod(name: str, namespace: str = "shop", labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "main", "image": "registry.acme.example/web:1.2", "resources": {"requests": {"cpu": "1"}}}]
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-of-{name}", "labels": labels or {}}
    return POD | {"metadata": metadata, "spec": {"containers": containers} | spec}


def redacted(*objects: dict[str, Any]) -> tuple[Snapshot, Pseudonyms]:
    names = Pseudonyms(b"k" * 32)
    return redact_snapshot(load_snapshot(objects), names), names


def texts(value: Any) -> Iterator[str]:
    """Yield every text of a JSON document that is no key."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from texts(item)
    elif isinstance(value, str):
        yield value


def test_the_demo_keeps_none_of_its_names() -> None:
    demo = load_snapshot("demo")
    names = {obj.metadata.name for obj in demo.nodes + demo.pods + demo.namespaces + demo.deployments}
    names |= {container.image for pod in demo.pods for container in pod.spec.containers}
    written = set(texts(json.loads(encode_snapshot(redact_snapshot(demo), "x.json"))))
    assert written & names == set()


def test_a_name_becomes_the_same_wherever_it_stands() -> None:
    host = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["worker-a"]}
    zones = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["eu-1a", "eu-1b"]}
    field = {**host, "key": "metadata.name"}
    on_worker = selecting({"matchFields": [field], "matchExpressions": [host, zones]})
    snapshot, _ = redacted(node("worker-a"), pod("web-0", nodeName="worker-a", **on_worker))

    (found,) = snapshot.nodes
    (running,) = snapshot.pods
    terms = running.spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution.node_selector_terms
    assert found.metadata.name.startswith("node-1-")
    assert running.spec.node_name == found.metadata.name
    assert found.metadata.labels["kubernetes.io/hostname"] == found.metadata.name
    assert terms[0].match_fields[0].values == (found.metadata.name,)
    assert terms[0].match_expressions[0].values == (found.metadata.name,)
    assert terms[0].match_expressions[1].values[0] == found.metadata.labels["topology.kubernetes.io/zone"]


def test_numbers_stay_where_they_are_compared() -> None:
    terms = {"matchExpressions": [{"key": "disks", "operator": "Gt", "values": ["2"]}]}
    preferred = [{"weight": 1, "preference": terms}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    nodes = node("n", {"disks": "1234567890", "rack": "12", "account": "123456789012", "row": "12b"})
    snapshot, _ = redacted(nodes, pod("p", labels={"shard": "12"}, affinity=affinity))

    labels = snapshot.nodes[0].metadata.labels
    assert (labels["disks"], labels["rack"]) == ("1234567890", "12")
    assert {labels[key][:2] for key in ("account", "row")} == {"v-"}
    assert snapshot.pods[0].metadata.labels["shard"].startswith("v-")


def test_volumes_over_several_zones_name_each_zone() -> None:
    volume = head("PersistentVolume", name="pv", labels={"topology.kubernetes.io/zone": "eu-1a__eu-1b"}) | {
        "spec": {"awsElasticBlockStore": {"volumeID": "aws://eu-1a/vol-0123456789abcdef0"}}
    }
    snapshot, _ = redacted(node("n"), volume)
    zone = snapshot.nodes[0].metadata.labels["topology.kubernetes.io/zone"]
    first, second = snapshot.persistent_volumes[0].metadata.labels["topology.kubernetes.io/zone"].split("__")
    assert first == zone != second
    assert snapshot.persistent_volumes[0].spec.aws_elastic_block_store.volume_id.startswith(f"aws://{zone}/vol-")


def test_messages_paths_and_secrets_are_left_out() -> None:
    volumes = [{"name": "a", "secret": {"secretName": "payroll"}}, {"name": "b", "hostPath": {"path": "/payroll"}}]
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "payroll"}
    waiting = pod("p", volumes=volumes) | {"status": {"conditions": [condition]}}
    snapshot, _ = redacted(node("n", spec={"providerID": "payroll"}), waiting)
    assert b"payroll" not in encode_snapshot(snapshot, "x.json")


def test_where_it_came_from_and_what_others_said_is_left_out() -> None:
    plain = Snapshot(
        source="live:payroll",
        taken_at="2026-01-01T00:00:00Z",
        server_version="v1.35.0",
        warnings=(Warning("UnknownNode", "Node/payroll", "payroll"), Warning("InconsistentList", "pods", "changed")),
        missing=(
            MissingKind("pods", "read in payroll only", ("NodePorts",), ("payroll",)),
            MissingKind("jobs", "forbidden"),
        ),
        skipped={"Payroll": 3},
    )

    snapshot = redact_snapshot(plain)

    assert "payroll" not in encode_snapshot(snapshot, "x.json").decode().lower()
    assert [kind.reason for kind in snapshot.missing] == ["read in some namespaces only", "forbidden"]
    assert (snapshot.taken_at, snapshot.server_version) == (plain.taken_at, plain.server_version)
    assert [warning.code for warning in snapshot.warnings][:1] == ["InconsistentList"]


@pytest.mark.parametrize(
    ("reason", "names", "shown"),
    [
        ("forbidden in in", ("in",), "forbidden in some namespaces"),
        ("read in a, only only", ("a", "only"), "read in some namespaces only"),
        ("forbidden in payroll", ("shop",), "in part"),
        ("forbidden in payroll", (), "in part"),
    ],
)
def test_reasons_name_no_namespace_whatever_a_file_says(reason: str, names: tuple[str, ...], shown: str) -> None:
    plain = Snapshot(source="x", missing=(MissingKind("jobs", reason, (), names),))
    assert [kind.reason for kind in redact_snapshot(plain).missing] == [shown]


@given(st.sets(st.text("abc-.09", min_size=1, max_size=5), min_size=1, max_size=120), st.sampled_from(["Node", "uid"]))
def test_pseudonyms_are_distinct_and_sort_as_the_originals(names: set[str], domain: str) -> None:
    pseudonyms = Pseudonyms()
    for name in names:
        assert pseudonyms.of(domain, name) == name
    pseudonyms.seal()
    given_names = [pseudonyms.of(domain, name) for name in sorted(names)]
    assert given_names == sorted(given_names)
    assert len(set(given_names)) == len(names)


def test_the_key_decides_and_nothing_else() -> None:
    def one(key: bytes) -> str:
        pseudonyms = Pseudonyms(key)
        pseudonyms.of("Node", "n")
        pseudonyms.seal()
        return pseudonyms.of("Node", "n")

    assert one(b"a" * 32) == one(b"a" * 32) != one(b"b" * 32)


def test_scopes_shares_and_annotations_of_templates_tell_nothing() -> None:
    scopes = [
        {"scopeName": "PriorityClass", "operator": "In", "values": ["secret-class"]},
        {"scopeName": "VolumeAttributesClass", "operator": "In", "values": ["secret-volumes"]},
        {"scopeName": "Terminating", "operator": "In", "values": ["secret-value"]},
    ]
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "default"}}
    quota["spec"] = {"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions": scopes}}
    device = {"driver": "d", "pool": "p", "device": "x", "shareID": "secret-share"}
    result = {**device, "request": "r"}
    claim: dict[str, Any] = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
    claim |= {"metadata": {"name": "c", "namespace": "default"}, "spec": {}}
    claim["status"] = {"allocation": {"devices": {"results": [result]}}, "devices": [device]}
    template = {"metadata": {"labels": {"a": "b"}, "annotations": {"note": "secret-note"}}, "spec": {"containers": []}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    metadata = {"name": "w", "namespace": "default", "annotations": {"note": "secret-note"}}
    workloads = [
        {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}
        for kind in ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")
    ]

    redacted = redact_snapshot(load_snapshot([node("n"), quota, claim, *workloads]))

    assert b"secret" not in encode_snapshot(redacted, "x.json")
    (stored,) = redacted.resource_claims
    assert stored.status.allocation is not None
    (allocated,) = stored.status.allocation.devices.results
    assert allocated.share_id == stored.status.devices[0].share_id


@pytest.mark.parametrize(
    "name",
    [
        "general",
        "eks-general-0ac3",
        "https://www.googleapis.com/projects/acme/zones/eu-b/instanceGroups/gke-general-1a",
    ],
)
def test_of_node_groups_sizes_and_failed_scale_ups_stay(name: str) -> None:
    labels = {"eks.amazonaws.com/nodegroup": "general", "topology.kubernetes.io/zone": "eu-b", "team": "gke"}
    node = head("Node", name="n1", labels=labels) | {"status": {"allocatable": {"cpu": "4", "pods": "9"}}}
    group = {
        "name": name,
        "health": {"minSize": 1, "maxSize": 9, "cloudProviderTarget": 3, "message": "acme said no"},
        "scaleUp": {"status": "Backoff", "lastTransitionTime": "2026-06-01T11:58:00Z", "backoffInfo": {"message": "x"}},
    }
    status = head("ConfigMap", name="cluster-autoscaler-status", namespace="kube-system") | {
        "data": {"status": json.dumps({"nodeGroups": [group, "acme"], "autoscalerStatus": "acme"})}
    }

    redacted = redact_snapshot(load_snapshot([node, status]))
    setup = setup_of(kplan.ClusterAutoscaler(), redacted)

    [kept] = setup.groups
    assert (kept.least, kept.most, kept.target, kept.is_backed_off, len(kept.nodes)) == (1, 9, 3, True, 1)
    [text] = [config_map.data.status for config_map in redacted.config_maps]
    assert not any(word in text for word in ("acme", "general", "eu-b", "gke", "eks"))
