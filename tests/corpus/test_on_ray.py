"""A Ray cluster makes the corpus that one machine makes, though a node dies on the way."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from gpt1 import prepare
from gpt1.base.errors import InputError, MissingDependency
from gpt1.text.tokenizer import Tokenizer
from tests.corpus.tools import SETTINGS, SIFTED, SMALL_LOT, WET, assert_same_folder, write_pages, write_texts

needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="the extra ray is not installed")

# Two nodes of one core, of which the second is killed when a fifth of the text is encoded.
SCRIPT = """
import json, sys
from pathlib import Path
import ray
from ray.cluster_utils import Cluster
import gpt1, gpt1.corpus.lots
from gpt1.base.progress import Silent

texts, tokenizer, out, settings, lot, told = sys.argv[1:]
gpt1.corpus.lots.LOT_BYTES = int(lot)
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
second = cluster.add_node(num_cpus=1)
cluster.wait_for_nodes()
ray.init(address=cluster.address, log_to_driver=False)

class Kills(Silent):
    shares = []

    def update(self, share, bytes_done):
        self.shares.append(share)
        if share > 0.2 and second in cluster.list_all_nodes():
            self.killed_at = share
            cluster.remove_node(second, allow_graceful=False)

progress = Kills()
gpt1.prepare(texts, tokenizer, out, engine="ray", progress=progress, **json.loads(settings))
Path(told).write_text(json.dumps([progress.killed_at, len(progress.shares)]))
ray.shutdown()
cluster.shutdown()
"""


@pytest.fixture
def tokenizer(words_tokenizer: Tokenizer, tmp_path: Path) -> Path:
    words_tokenizer.save(tmp_path / "tokenizer.json")
    return tmp_path / "tokenizer.json"


@needs_ray
def test_a_cluster_that_loses_a_node_in_the_middle_makes_the_bytes_of_one_machine(
    tokenizer: Path, tmp_path: Path
) -> None:
    texts = write_texts(tmp_path / "texts")
    write_pages(texts / "web", WET)
    settings = {**SIFTED, **SETTINGS}
    prepare(texts, tokenizer, tmp_path / "alone", **settings)
    given = [
        *map(str, (texts, tokenizer, tmp_path / "out")),
        json.dumps(settings),
        str(SMALL_LOT // 4),
        str(tmp_path / "told"),
    ]
    done = subprocess.run([sys.executable, "-c", SCRIPT, *given], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    killed_at, tasks = json.loads((tmp_path / "told").read_text())
    assert 0.2 < killed_at < 0.9
    assert tasks > 5
    assert_same_folder(tmp_path / "alone", tmp_path / "out")


def test_without_the_library_the_engine_is_refused_before_anything_is_written(
    tokenizer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingDependency, match=r"the engine ray needs the library ray: pip install 'gpt1\[ray\]'"):
        prepare(write_texts(tmp_path / "texts"), tokenizer, tmp_path / "out", engine="ray", **SETTINGS)
    assert not (tmp_path / "out").exists()


@needs_ray
def test_an_address_at_which_nobody_listens_is_refused_by_name(
    tokenizer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with pytest.raises(InputError, match=r"no Ray cluster answers at 127\.0\.0\.1:1: .*; RAY_ADDRESS says where it is"):
        prepare(write_texts(tmp_path / "texts"), tokenizer, tmp_path / "out", engine="ray", **SETTINGS)
