"""What `examples/kubernetes/serve.yaml` names is there: paths, ports, options, figures; and its times fit together."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpt1.cli.serve import TOKEN_VARIABLE, command
from gpt1.serve.listening import PORT
from gpt1.serve.patience import HEALTH
from gpt1.serve.server import make_app
from gpt1.serve.settings import ServerSettings
from gpt1.serve.workers import THREADS
from tests.test_containers import instructions

ROOT = Path(__file__).parent.parent
FILE = ROOT / "examples" / "kubernetes" / "serve.yaml"


@pytest.fixture(scope="module")
def objects() -> dict[str, Any]:
    return {found["kind"]: found for found in yaml.safe_load_all(FILE.read_text())}


@pytest.fixture(scope="module")
def pod(objects: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = objects["Deployment"]["spec"]["template"]
    return found


@pytest.fixture(scope="module")
def container(pod: dict[str, Any]) -> dict[str, Any]:
    (found,) = pod["spec"]["containers"]
    return dict(found)


@pytest.fixture(scope="module")
def asked(container: dict[str, Any]) -> dict[str, Any]:
    """What the image's entry and the pod's arguments ask of `gpt1 serve`, as the command line reads it."""
    (entry,) = [json.loads(rest) for word, rest in instructions(ROOT / "Containerfile") if word == "ENTRYPOINT"]
    assert entry[:2] == ["gpt1", "serve"]
    return command.make_context("serve", [*entry[2:], *container["args"]]).params


def test_each_probe_asks_a_path_that_is_served_without_a_token(trained: Path, container: dict[str, Any]) -> None:
    settings = ServerSettings(runs=[str(trained)], host="127.0.0.1", port=PORT, device="cpu")
    served = {getattr(route, "path", "") for route in make_app(settings).routes}
    probes = {name: container[f"{name}Probe"]["httpGet"] for name in ("startup", "readiness", "liveness")}
    paths = [probe["path"] for probe in probes.values()]
    assert paths == ["/startupz", "/readyz", "/healthz"]
    assert set(paths) <= served & set(HEALTH)
    assert {probe["port"] for probe in probes.values()} == {"http"}


def test_the_port_is_one_and_the_same(
    objects: dict[str, Any], pod: dict[str, Any], container: dict[str, Any], asked: dict[str, Any]
) -> None:
    assert container["ports"] == [{"name": "http", "containerPort": PORT}]
    assert asked["port"] == PORT
    assert objects["Service"]["spec"]["ports"][0]["targetPort"] == "http"
    scraped = pod["metadata"]["annotations"]
    assert (scraped["prometheus.io/port"], scraped["prometheus.io/path"]) == (str(PORT), "/metrics")


def test_there_is_time_to_be_taken_off_lists_and_to_drain_before_the_kill(
    pod: dict[str, Any], container: dict[str, Any], asked: dict[str, Any]
) -> None:
    waits = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    readiness = container["readinessProbe"]
    assert waits + asked["grace_seconds"] < pod["spec"]["terminationGracePeriodSeconds"]
    assert waits >= readiness["periodSeconds"] * readiness["failureThreshold"]


def test_a_pod_has_a_token_the_runs_and_a_place_for_shared_figures(
    container: dict[str, Any], asked: dict[str, Any], pod: dict[str, Any]
) -> None:
    names = {one["name"]: one for one in container["env"]}
    assert TOKEN_VARIABLE in names  # without which it would not listen for others
    mounted = {one["mountPath"]: one["name"] for one in container["volumeMounts"]}
    assert asked["runs"][0].startswith("/runs/")
    assert mounted.keys() == {"/runs", "/tmp"}
    assert set(mounted.values()) == {volume["name"] for volume in pod["spec"]["volumes"]}
    assert int(asked["workers"]) * int(names[THREADS]["value"]) <= int(container["resources"]["requests"]["cpu"])


def test_it_is_scaled_by_a_figure_that_is_told_for_each_pod(trained: Path, objects: dict[str, Any]) -> None:
    scaler = objects["HorizontalPodAutoscaler"]["spec"]
    (metric,) = scaler["metrics"]
    name = metric["pods"]["metric"]["name"]
    settings = ServerSettings(runs=[str(trained)], host="127.0.0.1", port=PORT, device="cpu")
    assert f"\n{name}{{" in make_app(settings).state.server.meters.text().decode()
    assert re.search(rf"seriesQuery: '{name}\{{", FILE.read_text())
    assert scaler["scaleTargetRef"]["name"] == objects["Deployment"]["metadata"]["name"]
    assert int(metric["pods"]["target"]["averageValue"]) < ServerSettings(runs=[], host="", port=0).limits.max_queue


def test_all_objects_mean_the_same_pods(objects: dict[str, Any], pod: dict[str, Any]) -> None:
    labels = pod["metadata"]["labels"]
    assert objects["Deployment"]["spec"]["selector"]["matchLabels"] == labels
    assert objects["Service"]["spec"]["selector"] == labels
    assert objects["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    assert (
        objects["HorizontalPodAutoscaler"]["spec"]["minReplicas"]
        > objects["PodDisruptionBudget"]["spec"]["minAvailable"]
    )
