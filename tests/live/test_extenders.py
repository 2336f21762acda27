"""Extenders over HTTP, against a real local server that can misbehave."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

import kplan
from kplan.config import SchedulerConfiguration
from kplan.live.extenders import http_extenders
from tests.objects import node, pod

from .conftest import CONFIGURATION


@dataclass
class Webhook:
    """A local extender; every question is kept with its verb."""

    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    url: str = ""


@contextmanager
def webhook(**replies: Any) -> Iterator[Webhook]:
    """Run an extender; for each verb what it answers to a question, a status with a body, or None to hang up."""
    hook = Webhook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            verb = self.path.rsplit("/", 1)[-1]
            question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            hook.asked.append((verb, question))
            reply = replies[verb]
            if reply is None:
                self.close_connection = True
                return
            status, body = reply if isinstance(reply, tuple) else (200, json.dumps(reply(question)).encode())
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hook.url = f"http://127.0.0.1:{server.server_port}/scheduler"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield hook
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def place(hook: Webhook, objects: list[dict[str, Any]], name: str = "default/new", **fields: Any) -> kplan.Placement:
    config = configured(hook, httpTimeout="1s", **fields)
    return kplan.Planner(kplan.load_snapshot(objects), config, extenders=http_extenders(config)).place(name)


def configured(hook: Webhook, **fields: Any) -> SchedulerConfiguration:
    return kplan.load_scheduler_config({**CONFIGURATION, "extenders": [{"urlPrefix": hook.url, **fields}]})


CLUSTER = [node("a"), node("b"), node("c"), pod("new", cpu="1")]


def test_filters_by_node_objects() -> None:
    def keep_b(question: dict[str, Any]) -> dict[str, Any]:
        items = [each for each in question["Nodes"]["items"] if each["metadata"]["name"] == "b"]
        return {"nodes": {"items": items}, "failedNodes": {"a": "too old"}, "failedAndUnresolvableNodes": {"c": "gone"}}

    with webhook(filter=keep_b) as hook:
        found = place(hook, CLUSTER, filterVerb="filter")

    assert (found.node, found.feasible_nodes) == ("b", ("b",))
    assert {name: (each.code, each.reasons) for name, each in found.rejections.items()} == {
        "a": ("Unschedulable", ("too old",)),
        "c": ("UnschedulableAndUnresolvable", ("gone",)),
    }
    assert hook.asked[0][1]["Pod"]["metadata"]["name"] == "new"


def test_filters_by_names_when_it_knows_the_nodes() -> None:
    with webhook(filter=lambda question: {"NodeNames": question["NodeNames"][1:]}) as hook:
        found = place(hook, CLUSTER, filterVerb="filter", bindVerb="bind", nodeCacheCapable=True)
    assert found.feasible_nodes == ("b", "c")
    assert [verb for verb, _ in hook.asked] == ["filter"]  # bind is never called
    assert hook.asked[0][1]["NodeNames"] == ["a", "b", "c"]
    assert hook.asked[0][1]["Nodes"] is None


def test_scores_count_ten_times_their_weight() -> None:
    with webhook(prioritize=lambda question: [{"Host": "c", "Score": 10}, {"host": "a", "score": 1}]) as hook:
        found = place(hook, CLUSTER, prioritizeVerb="prioritize", weight=3)
    assert found.node == "c"
    assert [found.scores[name].plugins[hook.url] for name in ("a", "b", "c")] == [30, 0, 300]


def test_only_pods_that_ask_for_a_managed_resource_concern_it() -> None:
    with webhook(filter=lambda question: {"NodeNames": []}) as hook:
        managed = {"managedResources": [{"name": "example.com/fpga"}]}
        found = place(hook, CLUSTER, filterVerb="filter", nodeCacheCapable=True, **managed)
    assert found.node == "a"
    assert hook.asked == []


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ((500, b"oops"), "failed filter with extender at URL {url}/filter, code 500"),
        ((200, b"<html>"), 'extender "{url}" did not answer with JSON'),
        ((200, b"[]"), "$: expected an object"),
        (None, 'Post "{url}/filter"'),
        (lambda question: {"error": "out of order"}, "out of order"),
        (lambda question: {"nodeNames": ["zz"]}, 'extender "{url}" claims a filtered node "zz"'),
        (lambda question: time.sleep(1.5), 'Post "{url}/filter"'),
    ],
    ids=["500", "garbage", "wrong type", "hangs up", "says so itself", "a node it was not asked about", "too slow"],
)
def test_a_faulty_extender_is_an_error_unless_it_is_ignorable(reply: Any, message: str) -> None:
    with webhook(filter=reply) as hook:
        strict = place(hook, CLUSTER, filterVerb="filter", nodeCacheCapable=True)
        lenient = place(hook, CLUSTER, filterVerb="filter", nodeCacheCapable=True, ignorable=True)
    assert strict.outcome.value == "Error"
    assert message.format(url=hook.url) in strict.message
    assert lenient.node == "a"


def test_a_failing_prioritizer_gives_no_score() -> None:
    with webhook(prioritize=(500, b"")) as hook:
        found = place(hook, CLUSTER, prioritizeVerb="prioritize", weight=1)
    assert found.node == "a"
    assert hook.url not in found.scores["a"].plugins


LOW = [pod(f"low-{name}", cpu="4", on=name) for name in ("a", "b")]
PREEMPTION = [node("a"), node("b"), *LOW, pod("new", cpu="4", priority=5)]


@pytest.mark.parametrize("node_cache_capable", [True, False])
def test_preempt_may_drop_candidates(node_cache_capable: bool) -> None:
    def keep_b(question: dict[str, Any]) -> dict[str, Any]:
        assert "b" in (question.get("NodeNameToMetaVictims") or question["NodeNameToVictims"])
        return {"nodeNameToMetaVictims": {"b": {"pods": [{"uid": "low-b"}], "numPDBViolations": 0}}}

    with webhook(preempt=keep_b) as hook:
        found = place(hook, PREEMPTION, preemptVerb="preempt", nodeCacheCapable=node_cache_capable)

    assert found.nominated_node == "b"
    assert list(found.preemption.candidates if found.preemption else ()) == ["b"]


def test_a_victim_that_is_not_on_its_node_ends_preemption() -> None:
    def wrong(question: dict[str, Any]) -> dict[str, Any]:
        return {"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "nobody"}]}}}

    with webhook(preempt=wrong) as hook:
        found = place(hook, PREEMPTION, preemptVerb="preempt", nodeCacheCapable=True)

    assert found.nominated_node is None
    assert f"extender: {hook.url} claims to preempt pod (UID: nobody) on node: a" in found.message


def test_without_being_asked_to_nobody_calls() -> None:
    with webhook(filter=lambda question: {"NodeNames": []}) as hook:
        config = configured(hook, filterVerb="filter")
        found = kplan.Planner(kplan.load_snapshot(CLUSTER), config).place("default/new")
    assert found.node == "a"
    assert hook.asked == []
