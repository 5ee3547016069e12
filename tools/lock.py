"""Write what is installed, each package with its version and the hashes of all its files: `make lock`.

`locks/all.txt` is for `make test` and `make demo`, `locks/serve.txt` for the container. On Linux PyTorch from the
packages' own index wants CUDA's libraries besides (`locks/cuda.txt`); PyTorch from its makers' CPU index does not, and
has a lock that is kept by hand (`locks/torch-cpu.txt`). A version that is locked stays until `--upgrade`, or until
pyproject.toml forbids it.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
LOCKS = ROOT / "locks"
INDEX = "https://pypi.org/simple"
CPU_INDEX = "https://download.pytorch.org/whl/cpu/torch/"
HEADER = "# Made by `make lock`; tools/lock.py says how.\n"

_ENTRY = re.compile(r"^\S+==.*\n(?:    --hash=.*\n)*", re.MULTILINE)
_HASH = re.compile(r" *\\\n    --hash=\S+")
_CUDA = re.compile(r"nvidia-|cuda-|triton==")  # what only PyTorch from the packages' own index wants


def read(name: str) -> list[str]:
    """Return the entries of a lock: a package, its version, where it is needed, and its hashes."""
    return _ENTRY.findall((LOCKS / name).read_text())


def write(name: str, entries: list[str]) -> None:
    """Write a lock."""
    (LOCKS / name).write_text(HEADER + "".join(entries))


def resolve(known: list[str], *arguments: str) -> list[str]:
    """Return entries for all that pyproject.toml needs, on every system, in the known versions where they will do."""
    with tempfile.TemporaryDirectory() as folder:
        lock = Path(folder) / "lock.txt"
        # Without their hashes, which would be taken over unseen.
        lock.write_text("".join(_HASH.sub("", entry) for entry in known))
        command = ["uv", "pip", "compile", "--quiet", "--no-config", f"--default-index={INDEX}"]
        command += ["--universal", "--python-version=3.11", "--generate-hashes", "--no-annotate", "--no-header"]
        command += ["--fork-strategy=fewest"]  # one version of a package, whatever the Python
        subprocess.run([*command, *arguments, "pyproject.toml", f"--output-file={lock}"], cwd=ROOT, check=True)
        return _ENTRY.findall(lock.read_text())


def main() -> None:
    """Renew all locks but PyTorch's for CPUs, and say where that one no longer fits."""
    entries = resolve(read("all.txt") + read("cuda.txt"), "--all-extras", *sys.argv[1:])
    served = resolve(entries, "--extra=serve")
    write("all.txt", [entry for entry in entries if not _CUDA.match(entry)])
    write("cuda.txt", [entry for entry in entries if _CUDA.match(entry)])
    write("serve.txt", [entry for entry in served if not _CUDA.match(entry) and not entry.startswith("torch==")])
    (torch,) = [entry.split()[0] for entry in entries if entry.startswith("torch==")]
    if not read("torch-cpu.txt")[0].startswith(f"{torch}+cpu "):
        sys.exit(f"write {torch}+cpu and the hashes that {CPU_INDEX} gives its files in locks/torch-cpu.txt by hand")


if __name__ == "__main__":
    main()
