"""Scheduler extenders over HTTP: filter, prioritize and preempt; bind is never called.

An extender is a webhook of the cluster's operator, not the API server, and is called only with ``--extenders call``.
Requests are POSTs, as the protocol demands; they contain the pod and the nodes with the fields that scheduling reads,
and change nothing.
Upstream: pkg/scheduler/extender.go, kube-scheduler/extender/v1/types.go.
"""

from __future__ import annotations

import functools
import ssl
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec
import urllib3
from urllib3.exceptions import ConnectTimeoutError, HTTPError, InsecureRequestWarning, ReadTimeoutError

from kplan.api.core import Node, Pod
from kplan.api.quantity import INT64
from kplan.api.time import SECOND
from kplan.config.model import Extender as ExtenderConfig
from kplan.config.model import ExtenderTLSConfig, SchedulerConfiguration
from kplan.errors import UsageError
from kplan.framework.interface import ExtenderError, ExtenderFilterResult, ExtenderVictims, PodsOn
from kplan.live import connections
from kplan.visible import without_account

_OK = 200

_MOST_BYTES = 1 << 28  #: answers may contain thousands of whole nodes


class HTTPExtender:
    """One configured extender."""

    def __init__(self, config: ExtenderConfig) -> None:
        self.name = without_account(config.url_prefix)  #: its URL, which is its name in kube-scheduler, too
        self.weight = config.weight  #: weight of its scores
        self.is_ignorable = config.ignorable
        self.filters = bool(config.filter_verb)
        self.prioritizes = bool(config.prioritize_verb)
        self.preempts = bool(config.preempt_verb)
        self._config = config
        self._managed = frozenset(resource.name for resource in config.managed_resources)
        self._pool = _open_pool(config)

    def is_interested(self, pod: Pod) -> bool:
        """Tell whether a container requests a resource that this extender manages; True where it manages none."""
        containers = (*pod.spec.containers, *pod.spec.init_containers)
        return not self._managed or any(
            self._managed & {*container.resources.requests, *container.resources.limits} for container in containers
        )

    def filter(self, pod: Pod, nodes: Sequence[Node]) -> ExtenderFilterResult:
        """Return the nodes that pass; raises ExtenderError for no answer, an error, or a node that was not sent."""
        answer = self._ask(self._config.filter_verb, self._about(pod, nodes))
        if error := answer["error"].text():
            raise ExtenderError(error)
        sent = {node.metadata.name for node in nodes}
        if self._config.node_cache_capable and answer["nodenames"].value is not None:
            names = [name.text() for name in answer["nodenames"].items()]
            if unknown := [name for name in names if name not in sent]:
                claim = f'extender "{self.name}" claims a filtered node "{unknown[0]}"'
                raise ExtenderError(f"{claim} which is not found in the input node list")
        else:
            names = [item["metadata"]["name"].text() for item in answer["nodes"]["items"].items()]
        failed = [
            {name: reason.text() for name, reason in answer[field].entries().items()}
            for field in ("failednodes", "failedandunresolvablenodes")
        ]
        return ExtenderFilterResult(names, *failed)

    def prioritize(self, pod: Pod, nodes: Sequence[Node]) -> Mapping[str, int]:
        """Return its scores of nodes; raises ExtenderError when its answer is absent or invalid."""
        answer = self._ask(self._config.prioritize_verb, self._about(pod, nodes))
        return {score["host"].text(): score["score"].integer() for score in answer.items()}

    def preempt(
        self, pod: Pod, victims: Mapping[str, ExtenderVictims], pods_on: PodsOn
    ) -> Mapping[str, ExtenderVictims]:
        """Return what it accepts, with victims; raises ExtenderError for no answer, or a pod that is not there."""
        knows_pods = self._config.node_cache_capable

        def shown(victim: Pod) -> Any:
            return {"UID": victim.metadata.uid} if knows_pods else victim

        by_node = {
            node: {
                "Pods": [shown(pods_on(node)[key]) for key in node_victims.pods],
                "NumPDBViolations": node_victims.num_pdb_violations,
            }
            for node, node_victims in victims.items()
        }
        question = {"Pod": pod, "NodeNameToMetaVictims" if knows_pods else "NodeNameToVictims": by_node}
        chosen = self._ask(self._config.preempt_verb, question)["nodenametometavictims"].entries()
        return {node: self._victims(node, node_victims, pods_on) for node, node_victims in chosen.items()}

    def _victims(self, node: str, answer: Value, pods_on: PodsOn) -> ExtenderVictims:
        key_of = {pod.metadata.uid: key for key, pod in pods_on(node).items()}
        keys = []
        for item in answer["pods"].items():
            uid = item["uid"].text()
            if uid not in key_of:
                claim = f"extender: {self.name} claims to preempt pod (UID: {uid}) on node: {node}"
                raise ExtenderError(f"{claim}, but the pod is not found on that node")
            keys.append(key_of[uid])
        return ExtenderVictims(keys, answer["numpdbviolations"].integer())

    def _about(self, pod: Pod, nodes: Sequence[Node]) -> dict[str, Any]:
        if self._config.node_cache_capable:
            return {"Pod": pod, "Nodes": None, "NodeNames": [node.metadata.name for node in nodes]}
        return {"Pod": pod, "Nodes": {"metadata": {}, "items": list(nodes)}, "NodeNames": None}

    def _ask(self, verb: str, question: Mapping[str, Any]) -> Value:
        """Post a request and return the answer; the configured timeout includes the whole answer."""
        url = f"{self.name.rstrip('/')}/{verb}"
        seconds = min(self._config.http_timeout / SECOND, threading.TIMEOUT_MAX)
        try:
            status, body = connections.in_time(seconds, functools.partial(self._exchange, verb, question, seconds))
        except (connections.OutOfTimeError, TimeoutError, ReadTimeoutError, ConnectTimeoutError):
            why = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
            raise ExtenderError(f'Post "{url}": {why}') from None
        except connections.BodyTooLargeError:
            raise ExtenderError(f'Post "{url}": an answer of more than {_MOST_BYTES >> 20} MiB') from None
        except (HTTPError, OSError, ValueError) as error:
            raise ExtenderError(f'Post "{url}": {connections.reason_of(error)}') from None
        if status != _OK:
            raise ExtenderError(f"failed {verb} with extender at URL {url}, code {status}")
        try:
            return Value(msgspec.json.decode(body), f'extender "{self.name}" did not answer as it must: $')
        except connections.UNREADABLE:
            raise ExtenderError(f'extender "{self.name}" did not answer with JSON') from None

    def _exchange(self, verb: str, question: Mapping[str, Any], seconds: float) -> tuple[int, bytes]:
        response = self._pool.request(
            "POST",
            f"{self._config.url_prefix.rstrip('/')}/{verb}",
            body=msgspec.json.encode(question),
            headers={"Content-Type": "application/json"},
            timeout=urllib3.Timeout(total=seconds),
            retries=False,
            preload_content=False,
        )
        allowance = connections.Allowance(_MOST_BYTES)
        body = connections.read_body(cast("urllib3.HTTPResponse", response), time.monotonic() + seconds, allowance)
        return response.status, body


def http_extenders(config: SchedulerConfiguration) -> tuple[HTTPExtender, ...]:
    """Return the configured extenders in the order in which they are called."""
    return tuple(HTTPExtender(extender) for extender in config.extenders_in_call_order())


def _open_pool(config: ExtenderConfig) -> urllib3.PoolManager:
    tls = config.tls_config or ExtenderTLSConfig()
    authority = tls.ca_data or tls.ca_file or None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if tls.insecure or (config.enable_https and authority is None):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        urllib3.disable_warnings(InsecureRequestWarning)
    try:
        certificate, key = tls.cert_data or tls.cert_file or None, tls.key_data or tls.key_file or None
        connections.TlsFiles(authority, certificate, key).load_into(context)
    except (OSError, ValueError) as error:
        name = without_account(config.url_prefix)
        message = f"the TLS settings of extender {name} cannot be used: {connections.reason_of(error)}"
        raise UsageError(message, hint="check certFile, keyFile and caFile under extenders[].tlsConfig") from None
    server_name = tls.server_name or None
    return urllib3.PoolManager(ssl_context=context, server_hostname=server_name, assert_hostname=server_name)


class Value:
    """A value of an answer; `where` is its path, and the beginning of messages about it.

    An extender may send anything. As in Go, field names are case-insensitive, and null means absent.
    """

    def __init__(self, value: Any, where: str) -> None:
        self.value = value
        self._where = where

    def text(self) -> str:
        """Return a string; raises ExtenderError for anything else."""
        return str(self._as(str, "a string", ""))

    def integer(self) -> int:
        number = self._as(int, "an integer", 0)
        if isinstance(number, bool) or number not in INT64:
            raise ExtenderError(f"{self._where}: expected an integer of 64 bits")
        return int(number)

    def items(self) -> list[Value]:
        items = self._as(list, "a list", [])
        return [Value(item, f"{self._where}[{index}]") for index, item in enumerate(items)]

    def entries(self) -> dict[str, Value]:
        fields = self._as(dict, "an object", {})
        return {name: Value(item, f"{self._where}.{name}") for name, item in fields.items()}

    def __getitem__(self, name: str) -> Value:
        """Return a field of an object by its name in lower case, whatever the case of its own; null if it is absent."""
        fields = {own_name.lower(): value for own_name, value in self.entries().items()}
        return fields.get(name) or Value(None, f"{self._where}.{name}")

    def _as(self, kind: type, name: str, zero: Any) -> Any:
        if self.value is None:
            return zero
        if not isinstance(self.value, kind):
            raise ExtenderError(f"{self._where}: expected {name}")
        return self.value
