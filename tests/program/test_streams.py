"""Standard input, output and error in every state in which a program may find them."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.processes import PROGRAM
from tests.recorded import IS_WHOLE, sample

STATES = {"open": "", "closed": ">&-", "full": ">/dev/full", "cut off": ">&4", "null": ">/dev/null"}

#: What each command ends with where its result can be written.
COMMANDS = {
    ("place", "shop/flash-sale", "-s", "demo"): 1,
    ("place", "no/such", "-s", "demo"): 2,
    ("nonsense",): 2,
    ("--version",): 0,
    ("place", "--help"): 0,
}


def run(args: tuple[str, ...], out: str, err: str, directory: Path, **environment: str) -> tuple[int, bytes, bytes]:
    """Run kplan with streams in these states; what is cut off is a pipe without a reader."""
    pipe = f"exec 5<>{directory}/pipe; exec 4>{directory}/pipe; exec 5>&-"
    streams = f"1{STATES[out]}" if STATES[out] else ""
    streams += f" 2{STATES[err]}" if STATES[err] else ""
    script = f'mkfifo {directory}/pipe; {pipe}; "$@" {streams} 4>&-'
    done = subprocess.run(
        ["bash", "-c", script, "bash", *PROGRAM, *args],
        capture_output=True,
        check=False,
        timeout=60,
        env={**os.environ, **environment},
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("args", sample([*COMMANDS], 2), ids=" ".join)
def test_streams_change_no_exit_code_unless_the_result_is_lost(args: tuple[str, ...], tmp_path: Path) -> None:
    usual = COMMANDS[args]
    if IS_WHOLE or (args[0] == "place" and usual == 1):
        pairs = [(out, "open") for out in STATES] + [("full", "full")]
        pairs = sample([*pairs, *(("null", err) for err in STATES if err != "open")], 3, first=1)
    else:
        pairs = [("closed", "closed"), ("full", "open")]
    for number, (out, err) in enumerate(pairs):
        directory = tmp_path / str(number)
        directory.mkdir()
        code, _, errors = run(args, out, err, directory)
        has_result = usual < 2
        assert code == (2 if has_result and out in ("closed", "full") else usual), (out, err)
        assert b"Traceback" not in errors, (out, err)
        assert b"internal error" not in errors, (out, err)
        if err == "open" and has_result and out in ("closed", "full"):
            assert errors.startswith((b"error: standard output is closed", b"error: cannot write to standard output"))


@pytest.mark.parametrize(("encoding", "shape"), [("ascii", "yaml"), ("utf-16", "json")])
def test_results_are_in_utf_8_everywhere(encoding: str, shape: str, tmp_path: Path) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "annotations": {"x": "größe 日"}}}
    pod["spec"] = {"containers": [{"name": "c", "image": "i"}]}
    (tmp_path / "pod.json").write_text(json.dumps(pod))
    args = ("pods", str(tmp_path / "pod.json"), "-s", "demo", "-o", shape)
    code, out, errors = run(args, "open", "open", tmp_path, PYTHONIOENCODING=encoding)
    assert (code, errors) == (0, b"")
    assert "größe 日" in out.decode()


def test_an_error_in_letters_that_the_terminal_lacks_is_shown_escaped(tmp_path: Path) -> None:
    (tmp_path / "日.json").write_text("{}")
    code, _, errors = run(("show", str(tmp_path / "日.json")), "open", "open", tmp_path, PYTHONIOENCODING="latin-1")
    assert code == 2
    assert b"\\u65e5.json" in errors


def test_a_file_never_takes_the_place_of_a_closed_stream(tmp_path: Path) -> None:
    target = tmp_path / "report.json"
    code, _, _ = run(("place", "no/such", "-s", "demo", "--save", str(target)), "closed", "closed", tmp_path)
    assert code == 2
    code, _, _ = run(
        ("place", "shop/flash-sale", "-s", "demo", "--report", f"json={target}"), "open", "closed", tmp_path / ".."
    )
    assert target.read_bytes().startswith(b"{")
