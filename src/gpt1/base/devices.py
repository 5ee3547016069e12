"""What a device is and can: which there are, how fast they multiply, in which precisions, with how much memory.

torch is imported inside the functions, so that asking for help stays fast. What can be decided without a device (the
table of GPUs, which precision stands in for another) is kept apart from asking the device, so that it can be tested
anywhere. A precision is one of `bf16`, `fp16`, `fp32`, `fp64`.
"""

from __future__ import annotations

import os
import platform
import re
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpt1.base.errors import SettingError, unknown
from gpt1.base.wording import many

if TYPE_CHECKING:
    import torch

GIB = 2**30
_TERA = 1e12
_DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "fp64": "float64"}


# --- the usual GPUs -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Gpu:
    """A GPU by its data sheet: memory, and the peak of dense matrix products with sums in fp32, in TFLOP/s."""

    name: str
    pattern: str  # of torch.cuda.get_device_name()
    memory_gib: int  # sold as GB; what the driver reports is nearer to that many GiB
    bf16: float | None
    fp16: float
    fp32: float  # the plain one, torch's default; not TF32

    def peak(self, precision: str) -> float | None:
        """Return the peak in FLOP/s; None where the GPU does not have the precision or the table does not say."""
        tera = {"bf16": self.bf16, "fp16": self.fp16, "fp32": self.fp32}.get(precision)
        return None if tera is None else tera * _TERA


# The first pattern that is found decides, so the special stand before the general. A data sheet that gives only the
# figure "with sparsity" was halved.
GPUS = (
    Gpu("B200", r"\bB200\b", 180, 2250, 2250, 75),  # NVIDIA Blackwell architecture, HGX B200: an eighth of the board
    Gpu("GH200", r"\bGH200\b", 96, 989, 989, 67),  # NVIDIA GH200 Grace Hopper Superchip data sheet
    Gpu("H200 NVL", r"\bH200 NVL\b", 141, 835, 835, 60),  # NVIDIA H200 data sheet, column NVL
    Gpu("H200", r"\bH200\b", 141, 989, 989, 67),  # NVIDIA H200 data sheet, column SXM
    Gpu("H100 NVL", r"\bH100 NVL\b", 94, 835, 835, 60),  # NVIDIA H100 data sheet, column NVL
    Gpu("H100 PCIe", r"\bH100 PCIe\b", 80, 756, 756, 51),  # NVIDIA H100 data sheet of 2022, column PCIe
    Gpu("H100", r"\bH100\b", 80, 989, 989, 67),  # NVIDIA H100 data sheet, column SXM
    Gpu("A100 40GB", r"\bA100.*40GB", 40, 312, 312, 19.5),  # NVIDIA A100 data sheet, SXM and PCIe alike
    Gpu("A100", r"\bA100\b", 80, 312, 312, 19.5),  # NVIDIA A100 data sheet, 80 GB
    Gpu("A40", r"\bA40\b", 48, 149.7, 149.7, 37.4),  # NVIDIA A40 data sheet
    Gpu("A30", r"\bA30\b", 24, 165, 165, 10.3),  # NVIDIA A30 data sheet
    Gpu("A10G", r"\bA10G\b", 24, 70, 70, 35),  # NVIDIA A10G data sheet (Amazon's G5)
    Gpu("A10", r"\bA10\b", 24, 125, 125, 31.2),  # NVIDIA A10 data sheet
    Gpu("L40S", r"\bL40S\b", 48, 362, 362, 91.6),  # NVIDIA L40S data sheet
    Gpu("L40", r"\bL40\b", 48, 181, 181, 90.5),  # NVIDIA L40 data sheet
    Gpu("L4", r"\bL4\b", 24, 121, 121, 30.3),  # NVIDIA L4 data sheet
    Gpu("T4", r"\bT4\b", 16, None, 65, 8.1),  # NVIDIA T4 data sheet
    Gpu("V100 32GB", r"\bV100.*32GB", 32, None, 125, 15.7),  # NVIDIA V100 data sheet, SXM2 (PCIe: 112 and 14)
    Gpu("V100", r"\bV100\b", 16, None, 125, 15.7),  # NVIDIA V100 data sheet, SXM2
    Gpu("RTX 6000 Ada", r"\bRTX 6000 Ada\b", 48, 364, 364, 91.1),  # NVIDIA RTX 6000 Ada data sheet
    Gpu("RTX A6000", r"\bRTX A6000\b", 48, 154.8, 154.8, 38.7),  # NVIDIA RTX A6000 data sheet
    Gpu("RTX 5090", r"\bRTX 5090\b", 32, 209.5, 209.5, 104.8),  # RTX Blackwell GPU architecture paper, appendix A
    Gpu("RTX 4090", r"\bRTX 4090\b", 24, 165.2, 165.2, 82.6),  # Ada GPU architecture paper, appendix A
    Gpu("RTX 3090", r"\bRTX 3090\b", 24, 71.2, 71.2, 35.6),  # GA102 GPU architecture paper, appendix A
)


def known_gpu(device_name: str) -> Gpu | None:
    """Return the table's entry for a name as `torch.cuda.get_device_name()` gives it, or None."""
    return next((gpu for gpu in GPUS if re.search(gpu.pattern, device_name, re.IGNORECASE)), None)


def find_gpu(name: str) -> Gpu:
    """Return the GPU a person means by `name`, such as `h200`, `4090` or `NVIDIA A100-SXM4-80GB`."""
    for spelling in (name, f"RTX {name}"):
        if gpu := next((gpu for gpu in GPUS if _plain(gpu.name) == _plain(spelling)), None) or known_gpu(spelling):
            return gpu
    raise unknown("GPU", name, [gpu.name for gpu in GPUS])


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]", "", name).lower()


def peak_flops(device_name: str, precision: str) -> float | None:
    """Return the data sheet's FLOP/s of dense products, or None for a device that is not in the table.

    Apple's and other makers' processors are not in it: their makers give no such figure; see `measured_flops`.
    """
    gpu = known_gpu(device_name)
    return gpu.peak(precision) if gpu else None


# --- which device -------------------------------------------------------------------------------------------


def find_device(name: str | None) -> torch.device:
    """Return the device of that name; without a name the first GPU, else Apple's, else the CPU."""
    import torch

    gpus, apple = torch.cuda.device_count() if torch.cuda.is_available() else 0, torch.backends.mps.is_available()
    if name is None:
        name = "cuda" if gpus else "mps" if apple else "cpu"
    kind, index = _parse(name)
    count = {"cpu": 1, "mps": int(apple), "cuda": gpus}.get(kind)
    if count is None or (index or 0) >= count:
        there = ["cpu", *["mps"] * apple, *(f"cuda:{i} ({torch.cuda.get_device_name(i)})" for i in range(gpus))]
        raise SettingError(f"there is no device '{name}' here; there is {', '.join(there)}{_why_no_gpu(kind)}")
    if kind == "cuda":  # always with its number: 'cuda' and 'cuda:0' are two different devices to torch
        return torch.device(kind, torch.cuda.current_device() if index is None else index)
    return torch.device(kind)


def _parse(name: str) -> tuple[str, int | None]:
    found = re.fullmatch(r"([a-z]+)(?::(\d+))?", name.lower())
    return (found[1], None if found[2] is None else int(found[2])) if found else ("", None)


def _why_no_gpu(kind: str) -> str:
    import torch

    if kind == "cuda" and not torch.version.cuda and not getattr(torch.version, "hip", None):
        return f" (torch {torch.__version__} was built without CUDA)"
    return ""


def device_name(device: torch.device) -> str:
    """Return what a person calls the device: `NVIDIA H200`, `AMD EPYC, 2 threads`."""
    import torch

    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    return f"{_processor()}, {'GPU' if device.type == 'mps' else many(torch.get_num_threads(), 'thread')}"


def _processor() -> str:
    """Return the processor's name; Linux has it only in a file of its own."""
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return found[1] if found else platform.processor() or platform.machine()


# --- in which precision -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Abilities:
    """What decides a precision: the kind of device (cuda, mps, cpu), its name, and whether it has bf16 products."""

    kind: str
    name: str
    bf16: bool


def usable_precision(device: torch.device, wanted: str) -> tuple[str, str | None]:
    """Return the precision to compute in on `device`, and a sentence if it is not the one that was wanted."""
    return choose_precision(find_abilities(device), wanted)


def choose_precision(has: Abilities, wanted: str) -> tuple[str, str | None]:
    """Return the nearest precision such a device computes well in, and a sentence if it is not `wanted`."""
    if wanted not in _DTYPES:
        raise unknown("precision", wanted, _DTYPES)
    if wanted == "bf16" and not has.bf16:
        # fp16 has fewer exponent bits, so it needs its loss scaled: worth it only where it is much faster than fp32.
        instead = "fp16" if has.kind == "cuda" else "fp32"
        return instead, f"computing in {instead}, not bf16: {has.name} has no bf16 products"
    if wanted == "fp16" and has.kind == "cpu":
        return "fp32", f"computing in fp32, not fp16: {has.name} is a CPU, which is slow in fp16"
    if wanted == "fp64" and has.kind == "mps":
        return "fp32", f"computing in fp32, not fp64: {has.name} has no fp64"
    return wanted, None


def check_int8(device: torch.device) -> None:
    """Refuse int8 where products of bytes are slow, or not exact."""
    from gpt1.base.torch_internals import cpu_has_vnni

    if device.type != "cpu":
        raise SettingError(f"int8 is for CPUs, and this run is on {device}; leave it out, or take `device='cpu'`")
    if not cpu_has_vnni():
        raise SettingError("int8 needs a CPU with VNNI instructions, which this one lacks; leave it out")


def arranges_matrices(device: torch.device, compute: torch.dtype) -> bool:
    """Say whether the device reads matrices faster that are arranged for it: a CPU of the x86 family, by oneDNN."""
    import torch

    from gpt1.base.torch_internals import onednn_has_bf16

    if (
        device.type != "cpu"
        or platform.machine() not in ("x86_64", "AMD64")
        or not torch.backends.mkldnn.is_available()
    ):
        return False
    if compute == torch.bfloat16:
        return onednn_has_bf16()
    return compute == torch.float32


def find_abilities(device: torch.device) -> Abilities:
    """Ask the device what decides a precision."""
    probe = {"cuda": _cuda_has_bf16, "mps": _mps_has_bf16, "cpu": _cpu_has_bf16}[device.type]
    return Abilities(device.type, device_name(device), probe(device))


def _cuda_has_bf16(device: torch.device) -> bool:
    import torch

    # Not torch.cuda.is_bf16_supported: it counts emulation, which is slower than fp32.
    return bool(getattr(torch.version, "hip", None)) or torch.cuda.get_device_capability(device) >= (8, 0)


def _mps_has_bf16(device: torch.device) -> bool:
    import torch

    try:
        torch.ones(1, dtype=torch.bfloat16, device=device)
    except (RuntimeError, TypeError):  # before macOS 14
        return False
    return True


def _cpu_has_bf16(device: torch.device) -> bool:
    from gpt1.base.torch_internals import onednn_has_bf16, x86_has_bf16

    return onednn_has_bf16() if platform.machine() in ("aarch64", "arm64") else x86_has_bf16()


# --- how fast -----------------------------------------------------------------------------------------------


def measured_flops(device: torch.device, precision: str, width: int, seconds: float = 0.2) -> float:
    """Return the FLOP/s of a product as in a feed-forward layer of that width, by doing it for `seconds` or so."""
    import torch

    dtype = getattr(torch, _DTYPES[precision])
    weight = torch.ones(width, 4 * width, dtype=dtype, device=device)
    end = time.perf_counter() + seconds
    rows, best = 16, 0.0
    while True:  # more rows until a product is long enough to time, then the fastest of as many as there is time for
        x = torch.ones(rows, width, dtype=dtype, device=device)
        began = _now(device)
        torch.mm(x, weight)
        took = _now(device) - began
        best = max(best, 2 * rows * weight.numel() / took)
        if _now(device) + took >= end:
            return best
        if took < seconds / 10 and rows < 2**16:
            rows *= 2


def _now(device: torch.device) -> float:
    """Return the time at which all that was asked of the device is done."""
    import torch

    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()
    return time.perf_counter()


# --- how much memory ----------------------------------------------------------------------------------------


def memory_total(device: torch.device) -> int:
    """Return the bytes of memory the device has: a GPU's own, or what the machine's processes share."""
    import torch

    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    if device.type == "mps":
        return int(torch.mps.recommended_max_memory())
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def memory_used(device: torch.device) -> int:
    """Return the bytes in use now: by tensors on a GPU, by the whole process on a CPU."""
    import torch

    if device.type == "cuda":
        return int(torch.cuda.memory_allocated(device))
    if device.type == "mps":
        return int(torch.mps.current_allocated_memory())
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:  # not Linux: the peak is the nearest that can be known
        return memory_peak(device)


def memory_peak(device: torch.device) -> int:
    """Return the most bytes ever in use; Apple's GPUs keep no record, so there it is what is in use now."""
    import resource

    import torch

    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    if device.type == "mps":
        return memory_used(device)
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
