"""A directory of 200 manifests with four reports, as a pipeline asks for them: whole processes.

usage: python tests/benchmarks/bench_manifests.py
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import clusters

N_MANIFESTS = 200
N_NODES, N_PODS = 500, 10_000
REPORTS = ("html", "json", "junit", "sarif")

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


def write_manifests(directory: Path) -> Path:
    """Write a file for each Deployment; all of them fit."""
    directory.mkdir()
    for index in range(N_MANIFESTS):
        name = f"service-{index:03d}"
        text = MANIFEST.format(name=name, replicas=1 + index % 3, cpu=20 + index % 70, memory=64 + index % 50)
        (directory / f"{name}.yaml").write_text(text)
    return directory


def measure(directory: Path) -> dict[str, float]:
    """Return the seconds of CPU time of each command."""
    snapshot = directory / "running.json"
    items = clusters.cluster(N_NODES, N_PODS)
    snapshot.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, separators=(",", ":")))
    manifests = write_manifests(directory / "manifests")
    return {command: _seconds(command, manifests, snapshot, directory) for command in ("place", "plan")}


def _seconds(command: str, manifests: Path, snapshot: Path, directory: Path) -> float:
    """Ask three times, and return the seconds of the fastest: the first time modules are compiled."""
    reports = [word for name in REPORTS for word in ("--report", f"{name}={directory / name}")]
    asked = [sys.executable, "-m", "kplan", command, str(manifests), "--snapshot", str(snapshot), *reports]
    compiled: Mapping[str, str] = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(directory / "compiled")}
    times = []
    for _ in range(3):
        started = os.times()
        subprocess.run(asked, check=True, stdout=subprocess.DEVNULL, env={**os.environ, **compiled})
        ended = os.times()
        times.append(ended.children_user + ended.children_system - started.children_user - started.children_system)
    return min(times)


def main() -> None:
    """Print the seconds of each command."""
    with tempfile.TemporaryDirectory() as name:
        for command, seconds in measure(Path(name)).items():
            print(f"kplan {command}: {N_MANIFESTS} manifests, {len(REPORTS)} reports: {seconds:.2f} s of CPU time")


if __name__ == "__main__":
    main()
