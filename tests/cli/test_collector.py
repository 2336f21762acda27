import gc
import subprocess
import sys

from tests.cli.commands import invoke


def collections(ending: str = "") -> list[int]:
    """Run the program; return how many objects each of its collections goes through."""
    script = (
        "import gc, sys\n"
        "from kplan.program.start import run\n"
        "def note(phase, info): phase == 'start' and print(len(gc.get_objects()), file=sys.stderr)\n"
        "gc.callbacks.append(note)\n"
        "sys.argv = ['kplan', 'place', 'shop/voucher-api', '-q', '--snapshot', 'demo']\n"
        f"try: run()\nfinally: pass{ending}\n"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return [int(line) for line in found.stderr.splitlines()]


def test_no_collection_goes_through_what_is_loaded() -> None:
    assert max(collections(), default=0) < 1_000


def test_what_comes_after_the_cluster_is_collected() -> None:
    assert max(collections("; waste = [[] for _ in range(150_000)]")) > 90_000


def test_a_command_within_another_program_leaves_its_collector_alone() -> None:
    gc.unfreeze()  # what these tests have frozen and no longer use would change the number
    before = gc.get_threshold(), gc.get_freeze_count()
    assert invoke("place", "shop/voucher-api", "--snapshot", "demo").exit_code == 0
    assert (gc.get_threshold(), gc.get_freeze_count()) == before
    gc.freeze()
