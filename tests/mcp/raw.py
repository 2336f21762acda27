"""The server as a process, spoken to line by line: also what no client of the SDK would send."""

import json
import os
import queue
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self

ROOT = Path(__file__).parents[2]
_PATIENCE = 120


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


class Server:
    """A server that a client has introduced itself to."""

    def __init__(self, *options: str) -> None:
        command = [sys.executable, "-m", "kplan", "mcp", *options]
        self.process = subprocess.Popen(
            command, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self._lines: queue.Queue[bytes] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        self.send(0, "initialize", about)
        self.receive()
        self.send(None, "notifications/initialized", None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(_PATIENCE)
        self.process.stdout.close()

    def send(self, number: int | None, method: str, parameters: Any) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": parameters} | (
            {} if number is None else {"id": number}
        )
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def call(self, number: int, name: str, arguments: Any) -> None:
        self.send(number, "tools/call", {"name": name, "arguments": arguments})

    def receive(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self._lines.get(timeout=_PATIENCE))
        return message

    def ask(self, name: str, arguments: Any) -> str:
        """Return the text of the answer."""
        self.call(1, name, arguments)
        text: str = self.receive()["result"]["content"][0]["text"]
        return text

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)


def children(pid: int) -> list[int]:
    """Return the processes that a process has started and that still run."""
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return [int(word) for word in listed.stdout.split() if int(word) != pid]
