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
from kplan.config.model import Extender as ExtenderConfig
from kplan.config.model import ExtenderTLSConfig, SchedulerConfiguration
from kplan.errors import UsageError
from kplan.framework.extenders import ExtenderError, ExtenderFilterResult, ExtenderVictims, PodsOn
from kplan.live.body import BodyTooLargeError, read_body
from kplan.live.deadline import OutOfTimeError, in_time
from kplan.live.extender_answers import Fields, Value, read_answer
from kplan.live.faults import reason_of
from kplan.live.tls import TlsFiles
from kplan.visible import without_account

_OK = 200
_NANOSECONDS = 1_000_000_000

#: Answers may contain thousands of whole nodes.
_MOST_BYTES = 1 << 28


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
        """Return the nodes that pass.

        Raises ExtenderError when it does not answer, answers with an error, or with nodes that were not sent.
        """
        answer = self._ask(self._config.filter_verb, self._about(pod, nodes)).fields()
        if error := answer["error"].text():
            raise ExtenderError(error)
        sent = {node.metadata.name for node in nodes}
        if self._config.node_cache_capable and answer["nodenames"].is_present:
            names = [name.text() for name in answer["nodenames"].items()]
            unknown = [name for name in names if name not in sent]
            if unknown:
                raise ExtenderError(
                    f'extender "{self.name}" claims a filtered node "{unknown[0]}" '
                    "which is not found in the input node list"
                )
        else:
            items = answer["nodes"].fields()["items"].items()
            names = [item.fields()["metadata"].fields()["name"].text() for item in items]
        return ExtenderFilterResult(names, answer["failednodes"].texts(), answer["failedandunresolvablenodes"].texts())

    def prioritize(self, pod: Pod, nodes: Sequence[Node]) -> Mapping[str, int]:
        """Return its scores of nodes; raises ExtenderError when its answer is absent or invalid."""
        answer = self._ask(self._config.prioritize_verb, self._about(pod, nodes))
        scores = [item.fields() for item in answer.items()]
        return {score["host"].text(): score["score"].integer() for score in scores}

    def preempt(
        self, pod: Pod, victims: Mapping[str, ExtenderVictims], pods_on: PodsOn
    ) -> Mapping[str, ExtenderVictims]:
        """Return the candidates, with their victims, that it accepts.

        Raises ExtenderError when it does not answer, or with a pod that is not on the node.
        """
        question: dict[str, Any] = {"Pod": pod}
        if self._config.node_cache_capable:
            question["NodeNameToMetaVictims"] = {
                node: {
                    "Pods": [{"UID": pods_on(node)[key].metadata.uid} for key in node_victims.pods],
                    "NumPDBViolations": node_victims.num_pdb_violations,
                }
                for node, node_victims in victims.items()
            }
        else:
            question["NodeNameToVictims"] = {
                node: {
                    "Pods": [pods_on(node)[key] for key in node_victims.pods],
                    "NumPDBViolations": node_victims.num_pdb_violations,
                }
                for node, node_victims in victims.items()
            }
        answer = self._ask(self._config.preempt_verb, question).fields()
        chosen = answer["nodenametometavictims"].entries()
        return {node: self._victims(node, node_victims.fields(), pods_on) for node, node_victims in chosen.items()}

    def _victims(self, node: str, answer: Fields, pods_on: PodsOn) -> ExtenderVictims:
        key_of = {pod.metadata.uid: key for key, pod in pods_on(node).items()}
        keys = []
        for item in answer["pods"].items():
            uid = item.fields()["uid"].text()
            if uid not in key_of:
                raise ExtenderError(
                    f"extender: {self.name} claims to preempt pod (UID: {uid}) on node: {node}, "
                    "but the pod is not found on that node"
                )
            keys.append(key_of[uid])
        return ExtenderVictims(keys, answer["numpdbviolations"].integer())

    def _about(self, pod: Pod, nodes: Sequence[Node]) -> dict[str, Any]:
        if self._config.node_cache_capable:
            return {"Pod": pod, "Nodes": None, "NodeNames": [node.metadata.name for node in nodes]}
        return {"Pod": pod, "Nodes": {"metadata": {}, "items": list(nodes)}, "NodeNames": None}

    def _ask(self, verb: str, question: Mapping[str, Any]) -> Value:
        """Post a request and return the answer; the configured timeout includes the whole answer."""
        url = f"{self.name.rstrip('/')}/{verb}"
        seconds = min(self._config.http_timeout / _NANOSECONDS, threading.TIMEOUT_MAX)
        try:
            status, body = in_time(seconds, functools.partial(self._exchange, verb, question, seconds))
        except (OutOfTimeError, TimeoutError, ReadTimeoutError, ConnectTimeoutError):
            raise ExtenderError(
                f'Post "{url}": context deadline exceeded (Client.Timeout exceeded while awaiting headers)'
            ) from None
        except BodyTooLargeError:
            raise ExtenderError(f'Post "{url}": an answer of more than {_MOST_BYTES >> 20} MiB') from None
        except (HTTPError, OSError, ValueError) as error:
            raise ExtenderError(f'Post "{url}": {reason_of(error)}') from None
        if status != _OK:
            raise ExtenderError(f"failed {verb} with extender at URL {url}, code {status}")
        return read_answer(body, self.name)

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
        try:
            body = read_body(cast("urllib3.HTTPResponse", response), time.monotonic() + seconds, _MOST_BYTES)
        except BaseException:
            response.close()
            raise
        response.release_conn()
        return response.status, body


def http_extenders(config: SchedulerConfiguration) -> tuple[HTTPExtender, ...]:
    """Return the configured extenders in the order in which they are called."""
    return tuple(HTTPExtender(extender) for extender in config.extenders_in_call_order())


def _open_pool(config: ExtenderConfig) -> urllib3.PoolManager:
    tls = config.tls_config or ExtenderTLSConfig()
    has_authority = bool(tls.ca_file or tls.ca_data)
    verifies = not tls.insecure and (has_authority or not config.enable_https)
    try:
        context = _tls_context(tls, verifies=verifies)
    except (OSError, ValueError) as error:
        hint = "check certFile, keyFile and caFile under extenders[].tlsConfig"
        raise UsageError(
            f"the TLS settings of extender {without_account(config.url_prefix)} cannot be used: {reason_of(error)}",
            hint=hint,
        ) from None
    if not verifies:
        urllib3.disable_warnings(InsecureRequestWarning)
    server_name = tls.server_name or None
    return urllib3.PoolManager(ssl_context=context, server_hostname=server_name, assert_hostname=server_name)


def _tls_context(tls: ExtenderTLSConfig, *, verifies: bool) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if not verifies:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    authority = tls.ca_data or tls.ca_file or None
    certificate, key = tls.cert_data or tls.cert_file or None, tls.key_data or tls.key_file or None
    TlsFiles(authority, certificate, key).load_into(context)
    return context
