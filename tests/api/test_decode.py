import json

import msgspec
import pytest

from kplan.api.core import Node, Pod
from kplan.api.decode import DecodeError, convert, decode, describe


def test_unknown_fields_pass_and_absent_ones_get_their_defaults() -> None:
    pod = decode(b'{"metadata":{"name":"a","annotations":{"x":"y"}},"spec":{"env":[],"nodeName":"n"}}', Pod)
    assert (pod.metadata.name, pod.spec.node_name, pod.spec.containers) == ("a", "n", ())


def test_encoding_gives_back_what_was_said_and_no_more() -> None:
    text = b'{"metadata":{"name":"a"},"spec":{"nodeName":"n","overhead":{"cpu":"1"}}}'
    assert msgspec.json.encode(decode(text, Pod)) == text


def test_null_is_absent_in_objects_and_zero_in_maps_and_lists() -> None:
    text = b"""{"metadata": {"labels": {"a": null}, "ownerReferences": null},
        "spec": {"priority": null, "containers": [null, {"resources": {"requests": {"cpu": null}}}]}}"""
    pod = decode(text, Pod)
    assert pod.metadata.labels == {"a": ""}
    assert pod.metadata.owner_references == ()
    assert pod.spec.priority is None
    assert pod.spec.containers[1].resources.requests == {"cpu": "0"}


def test_every_problem_comes_with_its_path_and_a_hint() -> None:
    wrong = {
        "metadata": {"labels": {"version": 1.1}},
        "spec": {"priority": "high", "containers": [{"ports": {"hostPort": 80}, "image": True}]},
    }
    with pytest.raises(DecodeError) as caught:
        decode(json.dumps(wrong).encode(), Pod)
    assert [(p.json_path, p.message) for p in caught.value.problems] == [
        ("$.metadata.labels['version']", "expected a string, got 1.1"),
        ("$.spec.containers[0].image", "expected a string, got true"),
        ("$.spec.containers[0].ports", "expected a list, got an object"),
        ("$.spec.priority", 'expected an integer, got "high"'),
    ]
    assert caught.value.problems[0].hint == 'put quotes around it: "1.1"'


@pytest.mark.parametrize("priority", ["2147483648", "1e30", "99999999999999999999999", "1.5"])
def test_integers_are_those_of_the_api(priority: str) -> None:
    with pytest.raises(DecodeError, match="expected an integer from -2147483648 to 2147483647"):
        decode(f'{{"spec": {{"priority": {priority}}}}}'.encode(), Pod)


def test_builtins_and_json_agree() -> None:
    obj = {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": 4, "memory": "8Gi"}}}
    assert convert(obj, Node) == decode(json.dumps(obj).encode(), Node)


def test_other_than_an_object_is_refused() -> None:
    with pytest.raises(DecodeError, match="expected an object, got a list"):
        decode(b"[]", Pod)
    with pytest.raises(DecodeError, match="expected true or false"):
        convert({"spec": {"hostNetwork": "\ud800"}}, Pod)


def test_long_values_are_cut_when_described() -> None:
    assert len(describe("x" * 500)) == 60
