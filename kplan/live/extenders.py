"""Scheduler extenders over HTTP: filter, prioritize and preempt; bind is never called.

An extender is a webhook of the cluster's operator, not the API server, and is asked only when the user says so.
Requests are POSTs, as the protocol wants; they carry the pod and the nodes as far as scheduling reads them, and ask a
question.
Upstream: pkg/scheduler/extender.go, kube-scheduler/extender/v1/types.go (v1.36).
"""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import urllib3
from urllib3.exceptions import HTTPError, InsecureRequestWarning

from kplan.api.core import Node, Pod
from kplan.config.model import Extender as ExtenderConfig
from kplan.config.model import ExtenderTLSConfig, SchedulerConfiguration
from kplan.errors import UsageError
from kplan.framework.extenders import ExtenderError, ExtenderFilterResult, ExtenderVictims, PodsOn

__all__ = ["HTTPExtender", "http_extenders"]

_OK = 200
_NANOSECONDS = 1_000_000_000


class HTTPExtender:
    """One configured extender.

    Attributes
    ----------
    name : its URL, by which kube-scheduler names it too
    weight : what its scores count for
    """

    def __init__(self, config: ExtenderConfig) -> None:
        self.name = config.url_prefix
        self.weight = config.weight
        self.is_ignorable = config.ignorable
        self.filters = bool(config.filter_verb)
        self.prioritizes = bool(config.prioritize_verb)
        self.preempts = bool(config.preempt_verb)
        self._config = config
        self._managed = frozenset(resource.name for resource in config.managed_resources)
        self._pool = _open_pool(config)

    def is_interested(self, pod: Pod) -> bool:
        """Tell whether a container asks for a resource that this extender manages; without any it cares for all."""
        containers = (*pod.spec.containers, *pod.spec.init_containers)
        return not self._managed or any(
            self._managed & {*container.resources.requests, *container.resources.limits} for container in containers
        )

    def filter(self, pod: Pod, nodes: Sequence[Node]) -> ExtenderFilterResult:
        """Ask which nodes pass.

        Raises
        ------
        ExtenderError
            When it does not answer, answers with an error, or names nodes that it was not asked about.
        """
        answer = _fields(self._ask(self._config.filter_verb, self._about(pod, nodes)))
        if answer.get("error"):
            raise ExtenderError(str(answer["error"]))
        asked = {node.metadata.name for node in nodes}
        names = answer.get("nodenames")
        if self._config.node_cache_capable and names is not None:
            unknown = [name for name in names if name not in asked]
            if unknown:
                raise ExtenderError(
                    f'extender "{self.name}" claims a filtered node "{unknown[0]}" '
                    "which is not found in the input node list"
                )
        else:
            items = (answer.get("nodes") or {}).get("items") or []
            names = [item["metadata"]["name"] for item in items]
        return ExtenderFilterResult(
            names, answer.get("failednodes") or {}, answer.get("failedandunresolvablenodes") or {}
        )

    def prioritize(self, pod: Pod, nodes: Sequence[Node]) -> Mapping[str, int]:
        """Ask for scores.

        Raises
        ------
        ExtenderError
            When it does not answer or not in a usable way.
        """
        answer = self._ask(self._config.prioritize_verb, self._about(pod, nodes))
        if not isinstance(answer, list):
            raise ExtenderError(f'extender "{self.name}" did not answer with a list of scores')
        scores = [_fields(each) for each in answer]
        return {str(each.get("host", "")): int(each.get("score", 0)) for each in scores}

    def preempt(
        self, pod: Pod, victims: Mapping[str, ExtenderVictims], pods_on: PodsOn
    ) -> Mapping[str, ExtenderVictims]:
        """Ask which candidates, with which victims, are acceptable.

        Raises
        ------
        ExtenderError
            When it does not answer, or names a pod that is not on the node.
        """
        question: dict[str, Any] = {"Pod": pod}
        if self._config.node_cache_capable:
            question["NodeNameToMetaVictims"] = {
                node: {
                    "Pods": [{"UID": pods_on(node)[key].metadata.uid} for key in each.pods],
                    "NumPDBViolations": each.num_pdb_violations,
                }
                for node, each in victims.items()
            }
        else:
            question["NodeNameToVictims"] = {
                node: {
                    "Pods": [pods_on(node)[key] for key in each.pods],
                    "NumPDBViolations": each.num_pdb_violations,
                }
                for node, each in victims.items()
            }
        answer = _fields(self._ask(self._config.preempt_verb, question))
        chosen = answer.get("nodenametometavictims") or {}
        return {node: self._victims(node, _fields(each), pods_on) for node, each in chosen.items()}

    def _victims(self, node: str, found: dict[str, Any], pods_on: PodsOn) -> ExtenderVictims:
        key_of = {pod.metadata.uid: key for key, pod in pods_on(node).items()}
        keys = []
        for each in found.get("pods") or []:
            uid = str(_fields(each).get("uid", ""))
            if uid not in key_of:
                raise ExtenderError(
                    f"extender: {self.name} claims to preempt pod (UID: {uid}) on node: {node}, "
                    "but the pod is not found on that node"
                )
            keys.append(key_of[uid])
        return ExtenderVictims(keys, int(found.get("numpdbviolations") or 0))

    def _about(self, pod: Pod, nodes: Sequence[Node]) -> dict[str, Any]:
        if self._config.node_cache_capable:
            return {"Pod": pod, "Nodes": None, "NodeNames": [node.metadata.name for node in nodes]}
        return {"Pod": pod, "Nodes": {"metadata": {}, "items": list(nodes)}, "NodeNames": None}

    def _ask(self, verb: str, question: Mapping[str, Any]) -> Any:
        url = f"{self.name.rstrip('/')}/{verb}"
        try:
            response = self._pool.request(
                "POST",
                url,
                body=msgspec.json.encode(question),
                headers={"Content-Type": "application/json"},
                timeout=urllib3.Timeout(total=self._config.http_timeout / _NANOSECONDS),
                retries=False,
            )
        except HTTPError as error:
            raise ExtenderError(f'Post "{url}": {error}') from error
        if response.status != _OK:
            raise ExtenderError(f"failed {verb} with extender at URL {url}, code {response.status}")
        try:
            return msgspec.json.decode(response.data)
        except msgspec.DecodeError as error:
            raise ExtenderError(f'extender "{self.name}" did not answer with JSON: {error}') from error


def http_extenders(config: SchedulerConfiguration) -> tuple[HTTPExtender, ...]:
    """Return the configured extenders in the order in which they are called."""
    return tuple(HTTPExtender(each) for each in config.extenders_in_call_order())


def _fields(value: Any) -> dict[str, Any]:
    """Return an object's fields by lower-case name: Go reads and writes them in any case."""
    if not isinstance(value, Mapping):
        raise ExtenderError(f"expected an object, got {type(value).__name__}")
    return {str(name).lower(): item for name, item in value.items()}


def _open_pool(config: ExtenderConfig) -> urllib3.PoolManager:
    tls = config.tls_config or ExtenderTLSConfig()
    has_authority = bool(tls.ca_file or tls.ca_data)
    verifies = not tls.insecure and (has_authority or not config.enable_https)
    try:
        context = _tls_context(tls, verifies=verifies)
    except (OSError, ssl.SSLError) as error:
        hint = "check certFile, keyFile and caFile under extenders[].tlsConfig"
        raise UsageError(
            f"the TLS settings of extender {config.url_prefix} cannot be used: {error}", hint=hint
        ) from error
    if not verifies:
        urllib3.disable_warnings(InsecureRequestWarning)
    server_name = tls.server_name or None
    return urllib3.PoolManager(ssl_context=context, server_hostname=server_name, assert_hostname=server_name)


def _tls_context(tls: ExtenderTLSConfig, *, verifies: bool) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if not verifies:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if tls.ca_data:
        context.load_verify_locations(cadata=tls.ca_data.decode())
    elif tls.ca_file:
        context.load_verify_locations(cafile=tls.ca_file)
    if tls.cert_data or tls.cert_file:
        _load_client_certificate(context, tls)
    return context


def _load_client_certificate(context: ssl.SSLContext, tls: ExtenderTLSConfig) -> None:
    """Load certificate and key; OpenSSL takes them from files only, so those in memory pass through a private one."""
    if not tls.cert_data:
        context.load_cert_chain(tls.cert_file, tls.key_file or None)
        return
    with tempfile.TemporaryDirectory() as folder:
        pem = Path(folder) / "client.pem"
        pem.touch(mode=0o600)
        pem.write_bytes(tls.cert_data + b"\n" + tls.key_data)
        context.load_cert_chain(pem)
