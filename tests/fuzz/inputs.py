"""One hostile input after the other, each to one of kplan's commands, and what must not happen."""

import json
import random
import signal
from pathlib import Path
from types import FrameType

from tests.cli.commands import invoke
from tests.fuzz.objects import NAMES, Maker

MOST_SECONDS = 10
"""Of CPU time for one input."""
COMMANDS: list[list[str]] = [
    ["plan"],
    ["plan", "{manifest}"],
    ["place", "{manifest}"],
    ["explain", "-A"],
    ["preempt"],
    ["capacity", "{manifest}"],
    ["capacity", "--headroom"],
    ["drain", "{name}"],
    ["diff", "--cordon", "{name}"],
    ["pods", "{manifest}"],
    ["plan", "--with", "{manifest}"],
    ["snapshot", "show"],
    ["snapshot", "check"],
    ["snapshot", "save", "-", "--redact"],
]
FORMATS = ["table", "wide", "json", "markdown", "junit", "html", "sarif", "github", "name"]


class TooSlowError(BaseException):
    """Not an `Exception`, which the commands would catch."""


def finding(seed: str, folder: Path) -> str:
    """Try the input of a seed; return what went wrong, empty if nothing did.

    The input stays in the folder.
    """
    source = random.Random(seed)
    maker = Maker(source)
    cluster, manifest = folder / "cluster.json", folder / "manifest.json"
    cluster.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": maker.objects()}))
    manifest.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": maker.objects()[:2]}))
    command = source.choice(COMMANDS)
    places = {"manifest": str(manifest), "name": source.choice(NAMES)}
    words = [word.format(**places) for word in command]
    if command[0] == "snapshot":
        words += [str(cluster)] if command[1] != "save" else ["-s", str(cluster)]
    else:
        words += ["-s", str(cluster)]
        words += ["-o", source.choice(FORMATS)] if command[0] != "pods" else []
        words += ["--explain"] if command[0] in ("plan", "place", "explain") and source.random() < 0.5 else []
    return _wrong(words)


def _wrong(words: list[str]) -> str:
    def stop(_number: int, _frame: FrameType | None) -> None:
        raise TooSlowError

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
    try:
        answer = invoke(*words)
    except TooSlowError:
        return f"more than {MOST_SECONDS} s of CPU: kplan {' '.join(words)}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    said = f"{answer.stdout}\n{answer.stderr}"
    signs = ("internal error", "Traceback (most recent", "RuntimeWarning", "\x1b", "\u202e")
    if answer.exit_code not in (0, 1, 2) or any(sign in said for sign in signs):
        return f"exit code {answer.exit_code}: kplan {' '.join(words)}\n{answer.stderr[-2000:]}"
    return ""
