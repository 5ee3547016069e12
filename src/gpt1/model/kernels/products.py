"""Products with what comes before or after them computed on the way: the tanh GELU, its gradient, a bias's gradient.

They are cuBLASLt's, which torch has loaded: its epilogues `GELU_AUX_BIAS` and `DGELU` are not reached by any
operator of torch that keeps the values before the activation, so that the C interface is called here. What cuBLASLt
cannot do (another device or type, odd sizes) is computed by torch's own operators, its twins.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

# Values of cublasLt.h, library_types.h and cublas_api.h.
COMPUTE_32F, R_32F, R_16BF = 68, 0, 14
TRANSA, TRANSB, EPILOGUE, BIAS_POINTER, AUX_POINTER, AUX_LD = 3, 4, 7, 8, 11, 12
MAX_WORKSPACE = 1
GELU_AUX_BIAS = 164
WORKSPACE = 2**25  # bytes: what NVIDIA advises on Hopper
MULTIPLE = 8  # of elements: what its kernels want of every size


class _Choice(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t."""

    _fields_ = (
        ("algorithm", ctypes.c_uint64 * 8),
        ("workspace", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


def gelu_linear(x_NC: Tensor, weight_FC: Tensor, bias_F: Tensor) -> tuple[Tensor, Tensor]:
    """Return the tanh GELU of x W^T + b [N, F], and the values before it."""
    if not epilogues_fit(x_NC, weight_FC):
        before_NF = functional.linear(x_NC, weight_FC, bias_F)
        return functional.gelu(before_NF, approximate="tanh"), before_NF
    N, F = len(x_NC), len(weight_FC)
    y_NF, before_NF = x_NC.new_empty(N, F), x_NC.new_empty(N, F)
    plan = _plan(x_NC.device, F, N, x_NC.shape[1], True, GELU_AUX_BIAS)
    plan.run(weight_FC, x_NC, y_NF, bias_F, before_NF)
    return y_NF, before_NF


def epilogues_fit(x_NC: Tensor, weight: Tensor) -> bool:
    """Whether cuBLASLt computes what comes along with a product."""
    sizes = (*x_NC.shape, *weight.shape)
    fits = x_NC.is_cuda and x_NC.dtype == weight.dtype == torch.bfloat16 and all(n % MULTIPLE == 0 for n in sizes)
    return fits and _library() is not None


@functools.cache
def _library() -> Any:
    """Return cuBLASLt, the one that torch uses; None: it cannot be had."""
    try:
        library = ctypes.CDLL(f"libcublasLt.so.{(torch.version.cuda or '').split('.')[0]}")
    except OSError:
        return None
    library.cublasLtGetVersion.restype = ctypes.c_size_t
    return library


@functools.cache
def _workspace(device: torch.device) -> Tensor:
    return torch.empty(WORKSPACE, dtype=torch.uint8, device=device)


@functools.cache
def _handle(device: torch.device) -> ctypes.c_void_p:
    handle = ctypes.c_void_p()
    with torch.cuda.device(device):
        _check(_library().cublasLtCreate(ctypes.byref(handle)))
    return handle


@functools.cache
def _plan(device: torch.device, m: int, n: int, k: int, transposed: bool, epilogue: int) -> _Plan:
    return _Plan(device, m, n, k, transposed, epilogue)


class _Plan:
    """A product D = A B of column-major matrices [m, k] and [k, n] with its epilogue, and the algorithm for it.

    A row-major matrix is its own transpose to the library. A may lie transposed.
    """

    def __init__(self, device: torch.device, m: int, n: int, k: int, transposed: bool, epilogue: int) -> None:
        library = _library()
        self.device = device
        self.description = ctypes.c_void_p()
        _check(library.cublasLtMatmulDescCreate(ctypes.byref(self.description), COMPUTE_32F, R_32F))
        self._set(TRANSA, ctypes.c_int32(int(transposed)))
        self._set(EPILOGUE, ctypes.c_uint32(epilogue))
        self._set(AUX_LD, ctypes.c_int64(m))
        self._point(BIAS_POINTER, _workspace(device))  # the choice wants to see how they are aligned
        self._point(AUX_POINTER, _workspace(device))
        self.a = _layout(k, m) if transposed else _layout(m, k)
        self.b, self.d = _layout(k, n), _layout(m, n)
        preference, found, choice = ctypes.c_void_p(), ctypes.c_int(), _Choice()
        _check(library.cublasLtMatmulPreferenceCreate(ctypes.byref(preference)))
        most = ctypes.c_uint64(WORKSPACE)
        _check(library.cublasLtMatmulPreferenceSetAttribute(preference, MAX_WORKSPACE, ctypes.byref(most), ctypes.c_size_t(8)))
        layouts = (self.a, self.b, self.d, self.d)
        _check(
            library.cublasLtMatmulAlgoGetHeuristic(
                *(_handle(device), self.description, *layouts, preference, 1, ctypes.byref(choice), ctypes.byref(found))
            )
        )
        _check(library.cublasLtMatmulPreferenceDestroy(preference))
        self.choice = choice

    def run(self, a: Tensor, b: Tensor, d: Tensor, bias: Tensor, aux: Tensor) -> None:
        """Compute it on the current stream."""
        self._point(BIAS_POINTER, bias)
        self._point(AUX_POINTER, aux)
        workspace, one, zero = _workspace(self.device), ctypes.c_float(1), ctypes.c_float(0)
        a_pointer, b_pointer, d_pointer = (ctypes.c_void_p(x.data_ptr()) for x in (a, b, d))
        _check(
            _library().cublasLtMatmul(
                *(_handle(self.device), self.description, ctypes.byref(one), a_pointer, self.a, b_pointer, self.b),
                *(ctypes.byref(zero), d_pointer, self.d, d_pointer, self.d, ctypes.byref(self.choice)),
                *(ctypes.c_void_p(workspace.data_ptr()), ctypes.c_size_t(WORKSPACE)),
                ctypes.c_void_p(torch.cuda.current_stream(self.device).cuda_stream),
            )
        )

    def _point(self, attribute: int, x: Tensor) -> None:
        self._set(attribute, ctypes.c_void_p(x.data_ptr()))

    def _set(self, attribute: int, value: Any) -> None:
        _check(
            _library().cublasLtMatmulDescSetAttribute(
                self.description, attribute, ctypes.byref(value), ctypes.c_size_t(ctypes.sizeof(value))
            )
        )


def _layout(rows: int, columns: int) -> ctypes.c_void_p:
    layout = ctypes.c_void_p()
    numbers = ctypes.c_uint64(rows), ctypes.c_uint64(columns), ctypes.c_int64(rows)
    _check(_library().cublasLtMatrixLayoutCreate(ctypes.byref(layout), R_16BF, *numbers))
    return layout


def _check(status: int) -> None:
    if status != 0:
        raise RuntimeError(f"cuBLASLt answered with status {status}")
