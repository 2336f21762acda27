"""Try hostile inputs for some time: ``python -m tests.fuzz --seed 1 --seconds 100``; exits with 1 after a finding."""

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz.inputs import finding


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    options.add_argument("--seed", default="1", help="the first part of the seed of every input")
    options.add_argument("--seconds", type=float, default=100, help="how long to go on")
    options.add_argument("--only", type=int, help="try the input of this number alone")
    options.add_argument("--keep", type=Path, default=Path("fuzz-findings"), help="where inputs with findings go")
    chosen = options.parse_args()
    end, number, n_findings = time.monotonic() + chosen.seconds, chosen.only or 0, 0
    while time.monotonic() < end:
        with tempfile.TemporaryDirectory() as folder:
            wrong = finding(f"{chosen.seed}-{number}", Path(folder))
            if wrong:
                n_findings += 1
                sys.stderr.write(f"{chosen.seed}-{number}: {wrong}\n")
                shutil.copytree(folder, chosen.keep / f"{chosen.seed}-{number}", dirs_exist_ok=True)
        number += 1
        if chosen.only is not None:
            break
    sys.stderr.write(f"{number - (chosen.only or 0)} inputs, {n_findings} findings\n")
    return 1 if n_findings else 0


sys.exit(main())
