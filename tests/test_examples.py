"""The scripts for schedulers are read by bash and YAML, run with the schedulers' commands played, known to torchrun."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from torch.distributed.run import get_args_parser

from gpt1.cli.app import gpt1
from gpt1.cli.words import command_of

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
SLURM = EXAMPLES / "slurm" / "pretrain.sh"
KUBERNETES = EXAMPLES / "kubernetes" / "pretrain.yaml"
SKYPILOT = EXAMPLES / "skypilot" / "pretrain.yaml"
# https://docs.skypilot.co/en/latest/reference/yaml-spec.html, those of a task that are used here
SKYPILOT_KEYS = {"name", "num_nodes", "resources", "volumes", "workdir", "envs", "setup", "run"}
SKYPILOT_RESOURCES = {"infra", "accelerators", "job_recovery"}
STORE = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"

# Each keeps what it was called with, and in which environment, as a line of `calls`.
PLAYED = """#!/bin/bash
python3 - "$0" "$@" <<'END' >> "$CALLS"
import json, os, sys
print(json.dumps({"program": os.path.basename(sys.argv[1]), "words": sys.argv[2:], "environment": dict(os.environ)}))
END
"""
SRUN = PLAYED + 'shift 2; for SLURM_NODEID in 0 1; do export SLURM_NODEID; "$@" || exit 1; done\n'
SCONTROL = PLAYED + '[[ $1 == show ]] && printf "node-%s\\n" 7 8; exit 0\n'


@pytest.fixture
def played(tmp_path: Path) -> Path:
    """A folder with the commands of schedulers, and torchrun, that only tell how they were called."""
    folder = tmp_path / ".venv" / "bin"
    folder.mkdir(parents=True)
    for name, script in {"torchrun": PLAYED, "srun": SRUN, "scontrol": SCONTROL}.items():
        (folder / name).write_text(script)
        (folder / name).chmod(0o755)
    return folder


def run(script: str, played: Path, **variables: str) -> tuple[int, list[dict[str, Any]]]:
    """Run a script of bash; return its exit code and the calls."""
    calls = played / "calls"
    environment = {"PATH": f"{played}:{os.environ['PATH']}", "CALLS": str(calls), **variables}
    done = subprocess.run(
        ["bash", "-c", script], env=environment, cwd=played.parents[1], capture_output=True, text=True
    )
    assert "unbound" not in done.stderr, done.stderr
    lines = calls.read_text().splitlines() if calls.exists() else []
    return done.returncode, [json.loads(line) for line in lines]


def of_kubernetes() -> dict[str, Any]:
    return {document["kind"]: document for document in yaml.safe_load_all(KUBERNETES.read_text())}


def pod() -> Any:
    return of_kubernetes()["Job"]["spec"]["template"]["spec"]


def assert_starts_the_run(call: dict[str, Any], *, endpoint: str, is_host: bool, out: str) -> None:
    """Hold a call of torchrun to what torchrun itself and `gpt1 pretrain` understand, and to what must be there."""
    options = get_args_parser().parse_args(call["words"])
    assert (options.nnodes, options.rdzv_backend, options.rdzv_endpoint) == ("1:2", "c10d", endpoint)
    assert options.rdzv_conf == f"is_host={str(is_host).lower()}"
    assert options.max_restarts > 0
    assert options.rdzv_id not in ("", "none")
    assert (options.module, options.training_script) == (True, "gpt1")
    verb, *words = options.training_script_args
    asked = command_of(gpt1, [verb]).make_context(verb, words).params
    assert (verb, asked["resume"], asked["out"]) == ("pretrain", True, out)
    assert call["environment"][STORE] == "1"


def test_each_script_is_bash() -> None:
    sky = yaml.safe_load(SKYPILOT.read_text())
    (container,) = pod()["containers"]
    for script in (SLURM.read_text(), *container["args"], sky["setup"], sky["run"]):
        checked = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True)
        assert (checked.returncode, checked.stderr) == (0, "")
    assert os.access(SLURM, os.X_OK)


SLURM_JOB = {
    "SLURM_JOB_NODELIST": "node-[7-8]",
    "SLURM_JOB_NUM_NODES": "2",
    "SLURM_JOB_ID": "42",
    "CORPUS": "/shared/a corpus",
    "RUN": "/shared/runs/paper",
}


def test_slurm_starts_torchrun_on_each_machine(played: Path) -> None:
    code, calls = run(SLURM.read_text(), played, **SLURM_JOB)
    first, second = [call for call in calls if call["program"] == "torchrun"]
    assert code == 0
    assert "/shared/a corpus" in first["words"]
    for call, is_host in ((first, True), (second, False)):
        assert_starts_the_run(call, endpoint="node-7:29400", is_host=is_host, out="/shared/runs/paper")
    assert not any("requeue" in call["words"] for call in calls)


@pytest.mark.parametrize(("turns", "again"), [({}, True), ({"SLURM_RESTART_COUNT": "100"}, False)])
def test_slurm_asks_for_another_turn_where_the_run_is_not_over(
    played: Path, turns: dict[str, str], again: bool
) -> None:
    (played / "torchrun").write_text("#!/bin/bash\nexit 1\n")
    code, calls = run(SLURM.read_text(), played, **SLURM_JOB, **turns)
    assert code == 1
    assert (["requeue", "42"] in [call["words"] for call in calls]) == again


def test_slurm_says_what_is_to_be_named(played: Path) -> None:
    code, calls = run(SLURM.read_text(), played, **{**SLURM_JOB, "RUN": ""})
    assert (code != 0, calls) == (True, [])


def test_kubernetes_starts_torchrun_in_each_pod(played: Path) -> None:
    (container,) = pod()["containers"]
    variables = {one["name"]: one.get("value", "10.0.0.1") for one in container["env"]}
    command = [*container["command"], *container["args"]]
    assert command[:2] == ["bash", "-c"]
    for index in ("0", "1"):
        _, calls = run(command[2], played, JOB_COMPLETION_INDEX=index, **variables)
    first, second = calls
    endpoint = "gpt1-pretrain-0.gpt1-pretrain:29400"
    for call, is_host in ((first, True), (second, False)):
        assert_starts_the_run(call, endpoint=endpoint, is_host=is_host, out="/work/runs/paper")
        assert "--local-addr=10.0.0.1" in call["words"]


def test_the_parts_of_the_kubernetes_job_belong_together() -> None:
    parts = of_kubernetes()
    job, service, claim = parts["Job"], parts["Service"], parts["PersistentVolumeClaim"]
    name, spec = job["metadata"]["name"], pod()
    assert (service["spec"]["clusterIP"], service["spec"]["selector"]) == ("None", {"job-name": name})
    assert spec["subdomain"] == service["metadata"]["name"]
    assert f"--rdzv-endpoint={name}-0.{spec['subdomain']}:" in spec["containers"][0]["args"][0]
    assert (job["spec"]["completionMode"], job["spec"]["completions"]) == ("Indexed", job["spec"]["parallelism"])
    volumes = {one["name"]: one for one in spec["volumes"]}
    assert {one["name"] for one in spec["containers"][0]["volumeMounts"]} == volumes.keys()
    assert volumes["work"]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]


def test_skypilot_starts_torchrun_on_each_machine(played: Path) -> None:
    task = yaml.safe_load(SKYPILOT.read_text())
    assert task.keys() <= SKYPILOT_KEYS
    assert task["resources"].keys() <= SKYPILOT_RESOURCES
    played_by_sky = {"SKYPILOT_NODE_IPS": "10.0.0.7\n10.0.0.8", "SKYPILOT_NUM_NODES": str(task["num_nodes"])}
    more = {"SKYPILOT_NUM_GPUS_PER_NODE": "8", "SKYPILOT_TASK_ID": "sky-1"}
    for rank in ("0", "1"):
        _, calls = run(task["run"], played, **task["envs"], **played_by_sky, **more, SKYPILOT_NODE_RANK=rank)
    for call, is_host in zip(calls, (True, False), strict=True):
        assert_starts_the_run(call, endpoint="10.0.0.7:29400", is_host=is_host, out=task["envs"]["RUN"])
    assert task["envs"]["RUN"].startswith(tuple(task["volumes"]))


def test_the_document_names_the_examples_and_the_same_options() -> None:
    page = (ROOT / "docs" / "pretraining.md").read_text()
    for path in (SLURM, KUBERNETES, SKYPILOT):
        assert f"(../{path.relative_to(ROOT)})" in page
    (command,) = re.findall(r"^torchrun (--rdzv-backend.*?)\n```", page, re.MULTILINE | re.DOTALL)
    options = get_args_parser().parse_args(command.replace("\\\n", " ").split())
    assert (options.nnodes, options.rdzv_backend, options.max_restarts > 0) == ("1:2", "c10d", True)
    verb, *words = options.training_script_args
    assert command_of(gpt1, [verb]).make_context(verb, words).params["resume"]
    assert f"export {STORE}=1" in page
