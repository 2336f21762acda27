"""How long it takes to load a large cluster from an API server on loopback, how much memory, and how small it is saved.

usage: python tests/benchmarks/bench_live.py [NODES [PODS]]

The server is a process of its own and has every page ready, made of the recorded node and pod with other names: what is
measured is kplan. Goals for 5,000 nodes and 20,000 pods: loaded within 4 s, under 700 MB; saved in at most a fifth of
the bytes that `kubectl get -o json` prints.
"""

import copy
import functools
import json
import multiprocessing
import resource
import sys
import tempfile
import time
from http.server import ThreadingHTTPServer
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from live.server import Answer, ApiServer, Cluster, Request, _Handler, _tls, kubeconfig, recordings  # noqa: E402 - found by way of the path above

PAGE = 500


def made_up(plural: str, count: int, n_nodes: int) -> list[dict[str, Any]]:
    """Return so many nodes or pods like the first recorded one that is whole."""
    items = recordings()[plural]["response"]["body"]["items"]
    model = next(item for item in items if plural == "nodes" or item["status"].get("phase") == "Running")
    made = []
    for index in range(count):
        item = copy.deepcopy(model)
        node = f"node-{index % n_nodes:05d}"
        name = node if plural == "nodes" else f"app-{index % 50}-{index:06d}"
        item["metadata"] |= {"name": name, "uid": f"{index:08x}-0000-4000-8000-{len(plural):012d}"}
        if plural == "nodes":
            item["metadata"]["labels"] |= {
                "kubernetes.io/hostname": node,
                "topology.kubernetes.io/zone": f"zone-{index % 3}",
            }
        else:
            item["metadata"]["labels"]["app"] = f"app-{index % 50}"
            item["spec"]["nodeName"] = node
        made.append(item)
    return made


def pages(plural: str, items: list[dict[str, Any]]) -> dict[str, bytes]:
    """Return continue token to body; the first page has the empty token."""
    kind = {"nodes": "NodeList", "pods": "PodList"}[plural]
    bodies = {}
    for start in range(0, max(len(items), 1), PAGE):
        metadata: dict[str, Any] = {"resourceVersion": "1"}
        if start + PAGE < len(items):
            metadata["continue"] = str(start + PAGE)
        document = {"kind": kind, "apiVersion": "v1", "metadata": metadata, "items": items[start : start + PAGE]}
        bodies[str(start) if start else ""] = json.dumps(document, separators=(",", ":")).encode()
    return bodies


def serve(n_nodes: int, n_pods: int, report: Connection) -> None:
    """Make the cluster, say where it is served and what kubectl would print, and serve it."""
    objects = {"nodes": made_up("nodes", n_nodes, n_nodes), "pods": made_up("pods", n_pods, n_nodes)}
    bodies = {f"/api/v1/{plural}": pages(plural, items) for plural, items in objects.items()}

    def large(request: Request) -> Answer | None:
        lists = bodies.get(request.path)
        return None if lists is None else Answer(200, lists[request.query.get("continue", "")])

    cluster = Cluster(fault=large)
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    url = f"https://127.0.0.1:{httpd.server_port}"
    httpd.RequestHandlerClass = functools.partial(_Handler, ApiServer(cluster, url))
    httpd.socket = _tls(cluster, "server").wrap_socket(httpd.socket, server_side=True, do_handshake_on_connect=False)
    report.send((url, printed_by_kubectl(objects)))
    httpd.serve_forever()


def printed_by_kubectl(objects: dict[str, list[dict[str, Any]]]) -> int:
    """Count the bytes of `kubectl get nodes,pods -A -o json`: four spaces of indentation, no managedFields."""
    items = []
    for kind, found in (("Node", objects["nodes"]), ("Pod", objects["pods"])):
        for item in found:
            metadata = {key: value for key, value in item["metadata"].items() if key != "managedFields"}
            items.append({"apiVersion": "v1", "kind": kind, **item, "metadata": metadata})
    return len(json.dumps({"apiVersion": "v1", "items": items, "kind": "List"}, indent=4))


def load(path: str, directory: str, report: Connection) -> None:
    """Load the cluster in a process that did nothing before, and save it."""
    began = time.perf_counter()
    from kplan.live import LiveOptions
    from kplan.live.collect import collect_snapshot
    from kplan.snapshot.own_file import save_snapshot

    snapshot = collect_snapshot(LiveOptions(kubeconfig=path, page_size=PAGE))
    loaded = time.perf_counter()
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    sizes = {name: save_snapshot(snapshot, Path(directory) / name) for name in ("cluster.json", "cluster.json.gz")}
    saved = time.perf_counter()
    report.send((len(snapshot.nodes), len(snapshot.pods), loaded - began, megabytes, sizes, saved - loaded))


def main() -> None:
    given = [int(text) for text in sys.argv[1:]]
    n_nodes, n_pods = (*given, *(5000, 20000)[len(given) :])
    fresh = multiprocessing.get_context("spawn")
    ours, theirs = fresh.Pipe()
    server = fresh.Process(target=serve, args=(n_nodes, n_pods, theirs), daemon=True)
    server.start()
    url, printed = ours.recv()
    with tempfile.TemporaryDirectory() as directory:
        path = kubeconfig(Path(directory), url)
        client = fresh.Process(target=load, args=(str(path), directory, theirs))
        client.start()
        nodes, pods, seconds, megabytes, sizes, saving = ours.recv()
        client.join()
    server.terminate()
    lines = [
        f"{nodes} nodes, {pods} pods, pages of {PAGE}",
        f"loaded from loopback, imports included   {seconds:6.2f} s    (goal 4)",
        f"memory at most                           {megabytes:6.0f} MB   (goal 700)",
        f"kubectl get -o json prints               {printed / 1e6:6.1f} MB",
        *(
            f"saved as {name:<31} {size / 1e6:6.1f} MB   {size / printed:.3f} of it (goal 0.2)"
            for name, size in sizes.items()
        ),
        f"saving both                              {saving:6.2f} s",
    ]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
