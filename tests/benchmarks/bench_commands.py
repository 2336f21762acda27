"""What people wait for: commands as whole processes, on clusters in files.

usage: python tests/benchmarks/bench_commands.py [WORD]     WORD: only of the commands that have it
"""

import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import clusters
from processes import run_kplan

from tests.objects import Object, budget, cron_job, deployment, job, running, scaler
from tests.questions.remedy import test_report as pending

N_MANIFESTS = 200
MANIFEST = """apiVersion: apps/v1
kind: Deployment
metadata:
  name: {name}
  namespace: shop
  labels:
    app.kubernetes.io/name: {name}
    app.kubernetes.io/part-of: shop
spec:
  replicas: {replicas}
  selector:
    matchLabels:
      app.kubernetes.io/name: {name}
  template:
    metadata:
      labels:
        app.kubernetes.io/name: {name}
      annotations:
        prometheus.io/scrape: "true"
    spec:
      securityContext:
        runAsNonRoot: true
        runAsUser: 1000
      topologySpreadConstraints:
      - maxSkew: 1
        topologyKey: topology.kubernetes.io/zone
        whenUnsatisfiable: ScheduleAnyway
        labelSelector:
          matchLabels:
            app.kubernetes.io/name: {name}
      containers:
      - name: app
        image: registry.example.com/shop/{name}:1.4.2
        ports:
        - name: http
          containerPort: 8080
        env:
        - name: POD_NAME
          valueFrom:
            fieldRef:
              fieldPath: metadata.name
        envFrom:
        - configMapRef:
            name: {name}
        resources:
          requests:
            cpu: {cpu}m
            memory: {memory}Mi
          limits:
            memory: {memory}Mi
        livenessProbe:
          httpGet: {{path: /healthz, port: http}}
        volumeMounts:
        - name: config
          mountPath: /etc/app
      volumes:
      - name: config
        configMap:
          name: {name}
"""


def write_manifests(directory: Path, number: int, millicores: int) -> None:
    """Write a file for each Deployment, of which each requests at least so much."""
    directory.mkdir()
    for index in range(number):
        name = f"service-{index:03d}"
        cpu, memory = millicores + index % 70, 64 + index % 50
        text = MANIFEST.format(name=name, replicas=1 + index % 3, cpu=cpu, memory=memory)
        (directory / f"{name}.yaml").write_text(text)


def busy(n_nodes: int, n_pods: int, replicas: int) -> list[Object]:
    """Return nodes with pods of Deployments, each of which has a budget and an autoscaler."""
    objects = [clusters.node(index) for index in range(n_nodes)]
    for index in range(n_pods // replicas):
        name = f"app-{index:04d}"
        workload = deployment(name, replicas)
        workload["spec"]["template"]["spec"]["containers"] = clusters.pod(name)["spec"]["containers"]
        nodes = [f"node-{(index * replicas + replica * 7) % n_nodes:05d}" for replica in range(replicas)]
        objects += [*running(workload, nodes), budget(name, maxUnavailable="10%"), scaler(name, 1, replicas + 20)]
    return objects


def scheduled(n_nodes: int, n_cron_jobs: int, every: int) -> list[Object]:
    """Return nodes, and cron jobs that start a run every few minutes."""
    objects = [clusters.node(index, cpu="16", memory="64Gi") for index in range(n_nodes)]
    for index in range(n_cron_jobs):
        name = f"cron-{index}"
        objects.append(cron_job(name, f"{index % every}-59/{every} * * * *", job(name, cpu=f"{200 + index * 10}m")))
    return objects


def full(n_nodes: int, n_workloads: int, replicas: int) -> list[Object]:
    """Return nodes that are nearly full, and workloads all of whose pods are pending."""
    objects = [pending.node(f"n{number}", "8") for number in range(n_nodes)]
    for number in range(n_nodes // 10):
        objects += pending.deployment(
            f"r{number}", "3500m", tuple(f"n{(20 * number + i) % n_nodes}" for i in range(20))
        )
    for number in range(n_workloads):
        objects += pending.deployment(f"p{number}", f"{1500 + 100 * number}m", ("",) * replicas)
    return objects


class Command(NamedTuple):
    """A command, and the cluster that it is about."""

    what: str  #: what it is asked
    words: str  #: its arguments; names of files are those in the directory of the benchmark
    cluster: Callable[[], list[Object]] = list  #: makes the objects of the snapshot; none for an empty list


REPORTS = " ".join(f"--report {name}=report.{name}" for name in ("html", "json", "junit", "sarif"))
COMMANDS = (
    Command("kplan --help", "--help"),
    Command(
        f"kplan place: {N_MANIFESTS} manifests, 4 reports, 500 nodes, 10,000 pods",
        f"place manifests {REPORTS}",
        lambda: clusters.cluster(500, 10_000),
    ),
    Command(
        f"kplan plan: {N_MANIFESTS} manifests, 4 reports, 500 nodes, 10,000 pods",
        f"plan manifests {REPORTS}",
        lambda: clusters.cluster(500, 10_000),
    ),
    Command(
        "kplan diff: 20 manifests of which some wait now, and what causes that, 500 nodes, 10,000 pods",
        "diff large --against-manifests small",
        lambda: clusters.cluster(500, 10_000),
    ),
    Command("kplan check: the standard set, 500 nodes, 10,000 pods", "check", lambda: busy(500, 10_000, 50)),
    Command("kplan drain --each: 1,000 nodes, 20,000 pods", "drain --each", lambda: busy(1_000, 20_000, 80)),
    Command("kplan remedy: 200 pending pods of 20 workloads, 500 nodes", "remedy", lambda: full(500, 20, 10)),
    Command(
        "kplan plan --for 24h: 500 nodes, 20,160 runs of cron jobs",
        "plan --for 24h --start 5s --stop 2s --run 180s",
        lambda: scheduled(500, 70, 5),
    ),
)


def measured(directory: Path, word: str = "") -> Iterator[tuple[str, float, float]]:
    """Yield each command, and its seconds of CPU time, and on the clock."""
    for name, number, millicores in (("manifests", N_MANIFESTS, 20), ("large", 20, 24_000), ("small", 20, 20)):
        write_manifests(directory / name, number, millicores)
    for command in COMMANDS:
        if word not in command.what:
            continue
        words = command.words.split()
        if objects := command.cluster():
            (directory / "cluster.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
            words += ["--snapshot", "cluster.json"]
        runs = [run_kplan(words, directory, codes=(0, 1))[0] for _ in range(2)]  # the first time modules are compiled
        least = min(runs, key=lambda run: run.cpu_seconds)
        yield command.what, least.cpu_seconds, least.seconds


def main() -> None:
    """Print the seconds of each command."""
    with tempfile.TemporaryDirectory() as name:
        for what, cpu, clock in measured(Path(name), *sys.argv[1:2]):
            print(f"{cpu:8.2f} s CPU {clock:8.2f} s  {what}", flush=True)


if __name__ == "__main__":
    main()
