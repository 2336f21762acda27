"""Print the formula of a release for Homebrew.

usage: homebrew.py OWNER/NAME TAG DIRECTORY      (the directory with the archives of build-program)
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from programs import SUMMARY, Program, programs_of

_SYSTEMS = {"darwin": "on_macos", "linux": "on_linux"}
_MACHINES = {"amd64": "on_intel", "arm64": "on_arm"}


def formula(repository: str, tag: str, directory: Path) -> str:
    """Return the formula, as Ruby."""
    programs = programs_of(repository, tag, directory)
    systems = [_system(name, [program for program in programs if program.system == name]) for name in _SYSTEMS]
    return f'''class Kplan < Formula
  desc "{SUMMARY}"
  homepage "https://github.com/{repository}"
  version "{tag.removeprefix("v")}"
  license "Apache-2.0"

{"".join(systems)}
  def install
    libexec.install Dir["*"]
    bin.install_symlink libexec/"kplan", libexec/"kubectl-kplan", libexec/"kubectl_complete-kplan"
    generate_completions_from_executable(bin/"kplan", "completion")
  end

  test do
    assert_match "general", shell_output("#{{bin}}/kplan explain --snapshot demo shop/voucher-api --exit-zero")
  end
end
'''


def _system(name: str, programs: list[Program]) -> str:
    blocks = [
        f'    {_MACHINES[program.machine]} do\n      url "{program.url}"\n      sha256 "{program.sha256}"\n    end\n'
        for program in programs
    ]
    return f"  {_SYSTEMS[name]} do\n{''.join(blocks)}  end\n"


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    sys.stdout.write(formula(sys.argv[1], sys.argv[2], Path(sys.argv[3])))
