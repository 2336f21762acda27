import subprocess
import sys


def ended(ending: str, *args: str) -> subprocess.CompletedProcess[str]:
    """Run kplan in a process that has something else to do at its end."""
    script = (
        "import atexit, sys, threading, time\n"
        "from kplan.program.start import run\n"
        f"sys.argv = ['kplan', *{args!r}]\n"
        f"try: run()\nfinally: {ending}\n"
    )
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)


def test_what_others_have_to_do_at_the_end_is_done_first() -> None:
    done = ended("atexit.register(print, 'registered')", "--version")
    assert (done.returncode, done.stdout.splitlines()[1:]) == (0, ["registered"])
    done = ended("threading.Thread(target=lambda: (time.sleep(0.2), print('thread'))).start()", "--version")
    assert (done.returncode, done.stdout.splitlines()[1:]) == (0, ["thread"])


def test_who_started_kplan_may_have_something_to_do_at_the_end_too() -> None:
    script = (
        "import atexit, sys\n"
        "atexit.register(print, 'registered before')\n"
        "from kplan.program.start import run\n"
        "sys.argv = ['kplan', '--version']\n"
        "run()"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[1:] == ["registered before"]


def test_the_exit_code_stays() -> None:
    assert ended("pass", "place", "shop/flash-sale", "-q", "-s", "demo").returncode == 1
    assert ended("pass", "place", "no/such", "-s", "demo").returncode == 2


def test_an_end_with_a_text_fails_as_in_every_program_of_python() -> None:
    script = (
        "import sys\nfrom kplan.program import streams\nstreams.prepare()\nstreams.end_with('text')\nsys.exit('text')"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "text\n")


def test_nothing_is_taken_apart() -> None:
    freed = "class Freed:\n  __del__ = lambda self: print('freed', file=sys.stderr, flush=True)\n"
    script = f"import sys\n{freed}kept = Freed()\n"
    plain = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert plain.stderr == "freed\n"
    script += "sys.argv = ['kplan', '--version']\nfrom kplan.program.start import run\nrun()"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stderr == ""
