"""Where kernels of our own stand in for plain code.

A pass over a few hundred tokens is a thousand kernels that hardly do anything: what it costs is their number. Code that
is compiled has them fused by the compiler, out of the plain form.
"""

from __future__ import annotations

import functools
import importlib.util

import torch
from torch import Tensor


def fuses(x: Tensor) -> bool:
    """Whether a kernel of our own can do what is asked of this tensor: on a GPU, at most in single precision."""
    return x.is_cuda and x.dtype != torch.float64 and not torch.compiler.is_compiling() and _has_triton()


@functools.cache
def _has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None  # who trains is told so where it is asked for
