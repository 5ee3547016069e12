"""Devices are found by name, and what each can do is known or measured."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from gpt1.base import devices
from gpt1.base.devices import (
    GIB,
    GPUS,
    Abilities,
    choose_precision,
    find_device,
    find_gpu,
    known_gpu,
    measured_flops,
    memory_peak,
    memory_total,
    memory_used,
    peak_flops,
    usable_precision,
)
from gpt1.base.errors import SettingError

CPU = torch.device("cpu")


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with two H200s, as far as asking goes."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "NVIDIA H200")


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with nothing but a CPU."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)


# --- which device -------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("two_gpus")
def test_a_gpu_is_chosen_where_there_is_one_and_always_has_its_number() -> None:
    assert find_device(None) == find_device("cuda") == torch.device("cuda", 0)
    assert find_device("CUDA:1") == torch.device("cuda", 1)
    assert find_device("cpu") == CPU


@pytest.mark.usefixtures("no_gpu")
def test_without_a_gpu_apples_is_chosen_and_else_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_device(None) == CPU
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert find_device(None) == torch.device("mps")


@pytest.mark.usefixtures("two_gpus")
@pytest.mark.parametrize("name", ["cuda:2", "gpu", "meta", "", "cuda:", "cpu:1", "cuda:-1"])
def test_a_device_that_is_not_there_is_refused_with_those_that_are(name: str) -> None:
    with pytest.raises(SettingError, match=rf"no device '{name}' here; there is cpu, .*cuda:1 \(NVIDIA H200\)"):
        find_device(name)


@pytest.mark.usefixtures("no_gpu")
def test_a_torch_without_cuda_is_given_as_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", None)
    with pytest.raises(SettingError, match=r"there is cpu .*built without CUDA"):
        find_device("cuda")


# --- the table ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reported", "name"),
    [
        ("NVIDIA H200", "H200"),
        ("NVIDIA H200 NVL", "H200 NVL"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("NVIDIA GH200 480GB", "GH200"),
        ("NVIDIA A100-SXM4-40GB", "A100 40GB"),
        ("NVIDIA A100-PCIE-40GB", "A100 40GB"),
        ("NVIDIA A100 80GB PCIe", "A100"),
        ("NVIDIA A10", "A10"),
        ("NVIDIA A10G", "A10G"),
        ("NVIDIA L4", "L4"),
        ("NVIDIA L40S", "L40S"),
        ("Tesla T4", "T4"),
        ("Tesla V100-SXM2-16GB", "V100"),
        ("Tesla V100-SXM2-32GB", "V100 32GB"),
        ("NVIDIA RTX A6000", "RTX A6000"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("NVIDIA B200", "B200"),
    ],
)
def test_the_names_drivers_report_are_known(reported: str, name: str) -> None:
    gpu = known_gpu(reported)
    assert gpu is not None
    assert gpu.name == name


@pytest.mark.parametrize("reported", ["NVIDIA H20", "NVIDIA RTX A1000", "Apple M2", "AMD EPYC", "NVIDIA L400", ""])
def test_a_name_that_only_resembles_a_known_one_is_not_taken_for_it(reported: str) -> None:
    assert known_gpu(reported) is None
    assert peak_flops(reported, "bf16") is None


def test_no_entry_of_the_table_hides_another() -> None:
    for gpu in GPUS:
        assert known_gpu(gpu.name) is gpu
        assert find_gpu(gpu.name.lower().replace(" ", "-")) is gpu


def test_peaks_are_in_flops_a_second_and_dense() -> None:
    assert peak_flops("NVIDIA H200", "bf16") == 989e12
    assert peak_flops("NVIDIA H200", "fp32") == 67e12
    assert peak_flops("NVIDIA H200", "fp64") is None
    assert peak_flops("Tesla T4", "bf16") is None
    assert peak_flops("Tesla T4", "fp16") == 65e12


def test_a_person_may_write_a_gpu_as_it_is_called() -> None:
    assert find_gpu("h200").name == "H200"
    assert find_gpu("4090").name == "RTX 4090"
    assert find_gpu("NVIDIA A100-SXM4-40GB").name == "A100 40GB"


def test_an_unknown_gpu_gets_the_nearest_name_and_all_of_them() -> None:
    with pytest.raises(SettingError, match=r"unknown GPU 'H2000'; did you mean 'H200'\? \(known: B200, .*RTX 3090\)"):
        find_gpu("H2000")


# --- precisions ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "bf16", "wanted", "given"),
    [
        ("cuda", True, "bf16", "bf16"),
        ("cuda", False, "bf16", "fp16"),
        ("cuda", False, "fp16", "fp16"),
        ("cuda", True, "fp64", "fp64"),
        ("mps", False, "bf16", "fp32"),
        ("mps", True, "fp16", "fp16"),
        ("mps", True, "fp64", "fp32"),
        ("cpu", True, "bf16", "bf16"),
        ("cpu", False, "bf16", "fp32"),
        ("cpu", True, "fp16", "fp32"),
        ("cpu", True, "fp64", "fp64"),
        ("cpu", False, "fp32", "fp32"),
    ],
)
def test_a_precision_a_device_lacks_is_replaced_and_the_replacement_is_announced(
    kind: str, bf16: bool, wanted: str, given: str
) -> None:
    precision, notice = choose_precision(Abilities(kind, "This One", bf16), wanted)
    assert precision == given
    if given == wanted:
        assert notice is None
    else:
        assert notice is not None
        assert notice.startswith(f"computing in {given}, not {wanted}: This One ")


def test_an_unknown_precision_is_refused() -> None:
    with pytest.raises(SettingError, match="unknown precision 'bf61'; did you mean 'bf16'"):
        choose_precision(Abilities("cpu", "This One", True), "bf61")


@pytest.mark.parametrize(("capability", "precision"), [((7, 0), "fp16"), ((7, 5), "fp16"), ((8, 0), "bf16")])
@pytest.mark.usefixtures("two_gpus")
def test_a_gpu_has_bf16_from_capability_8_on(
    monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], precision: str
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert usable_precision(torch.device("cuda", 0), "bf16")[0] == precision


@pytest.mark.parametrize(
    ("machine", "has", "precision"),
    [
        ("x86_64", {"avx512_bf16": True, "amx_tile": False}, "bf16"),
        ("x86_64", {"avx512_bf16": False, "amx_tile": True}, "bf16"),
        ("x86_64", {"avx512_bf16": False, "amx_tile": False}, "fp32"),
        ("x86_64", {}, "fp32"),  # a torch without these questions
        ("aarch64", {"mkldnn_bf16": True}, "bf16"),
        ("aarch64", {"avx512_bf16": True}, "fp32"),
    ],
)
def test_a_cpu_computes_in_bf16_only_with_instructions_for_it(
    monkeypatch: pytest.MonkeyPatch, machine: str, has: dict[str, bool], precision: str
) -> None:
    questions = SimpleNamespace(**{f"_is_{what}_supported": lambda yes=yes: yes for what, yes in has.items()})
    monkeypatch.setattr(devices.platform, "machine", lambda: machine)
    monkeypatch.setattr(torch, "cpu", questions)
    monkeypatch.setattr(torch.ops, "mkldnn", questions)
    assert usable_precision(CPU, "bf16")[0] == precision


# --- speed and memory ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", ["fp32", "fp64"])
def test_speed_is_measured_in_the_time_that_is_given(monkeypatch: pytest.MonkeyPatch, precision: str) -> None:
    now = 100.0

    def perf_counter() -> float:
        nonlocal now
        now += 0.01  # so every product seems to take that long
        return now

    monkeypatch.setattr(devices.time, "perf_counter", perf_counter)
    speed = measured_flops(CPU, precision, 64, seconds=0.2)
    assert 100.15 < now < 100.25
    rows = 16 * 2 ** ((now - 100) // 0.03 - 1)  # doubled before every product; the clock is read thrice for each
    assert speed == pytest.approx(2 * rows * 64 * 256 / 0.01)


def test_memory_grows_with_what_is_held() -> None:
    before = memory_used(CPU)
    held = torch.ones(64 * 2**20, dtype=torch.uint8)
    assert memory_used(CPU) - before > 32 * 2**20
    assert held.numel() <= memory_used(CPU) <= memory_peak(CPU) * 1.01 <= memory_total(CPU) * 1.01
    assert memory_total(CPU) > GIB / 4
