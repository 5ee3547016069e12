"""The whole way that exists today, on a folder of text: examine it, learn a vocabulary, encode it, train a small model.

Run by `make demo`. The text is this project's own documentation, so nothing is downloaded; name another folder as the
first argument to see yours.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
SENTENCE = "It isn't magic: a vocabulary is learned, then text becomes numbers.\n"


def run(*arguments: str, given: str | None = None) -> str:
    print(f"\n$ {f'echo {shlex.quote(given.strip())} | ' if given else ''}gpt1 {shlex.join(arguments)}", flush=True)
    done = subprocess.run([sys.executable, "-m", "gpt1", *arguments], input=given, stdout=subprocess.PIPE, text=True)
    print(done.stdout, end="", flush=True)
    if done.returncode:
        sys.exit(done.returncode)
    return done.stdout


def main() -> None:
    texts = sys.argv[1:] or [str(PROJECT / "README.md"), str(PROJECT / "docs")]
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        tokenizer, corpus, model = (str(Path(folder, name)) for name in ("tokenizer.json", "corpus", "run"))
        run("doctor", *texts)
        run("tokenizer", "train", *texts, "--kind", "words", "--merges", "1000", "--out", tokenizer)
        run("prepare", *texts, "--document", "blank", "--valid", "0.1", "--tokenizer", tokenizer, "--out", corpus)
        ids = run("tokenizer", "encode", "--tokenizer", tokenizer, given=SENTENCE)
        run("tokenizer", "decode", "--tokenizer", tokenizer, given=ids)
        watch = ("--set", "evaluate_every=100", "--set", "sample_every=100")
        run("pretrain", "--recipe", "tiny", "--corpus", corpus, "--out", model, "--steps", "200", *watch)
        run("evaluate", model)
    print(f"\nFrom text to a model in {time.monotonic() - began:.0f} seconds. Your own: gpt1 pretrain --help")


if __name__ == "__main__":
    main()
