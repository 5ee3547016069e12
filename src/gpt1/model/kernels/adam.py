"""The flat Adam update as one Triton kernel: every weight, gradient and moment is read once and written once, and a
narrower copy of the weights, where there is one, with them.

The twin of `adam_update` (`training/optimizers.py`), which is its judge: same arguments, same numbers up to the
rounding of a sum.
Imported only where there is a GPU and Triton.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 1024  # elements a program


@triton.jit  # type: ignore[untyped-decorator]
def _adam(  # type: ignore[no-untyped-def]
    p_ptr,
    g_ptr,
    m_ptr,
    v_ptr,
    copy_ptr,
    scale_ptr,
    ok_ptr,
    size,
    rate,
    decay,
    beta1,
    rest1,
    beta2,
    rest2,
    epsilon,
    copies: tl.constexpr,
    block: tl.constexpr,
):
    if tl.load(ok_ptr) == 0:
        return
    at = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)  # a buffer may be longer than 2**31
    inside = at < size
    scale = tl.load(scale_ptr).to(tl.float32)
    g = tl.load(g_ptr + at, inside) * scale
    p = tl.load(p_ptr + at, inside)
    m = beta1 * tl.load(m_ptr + at, inside) + rest1 * g
    v = beta2 * tl.load(v_ptr + at, inside) + rest2 * g * g
    direction = tl.div_rn(m, tl.sqrt_rn(v) + epsilon) + decay * p  # rounded as the twin rounds; memory sets the pace
    p -= rate * direction
    tl.store(p_ptr + at, p, inside)
    if copies:
        tl.store(copy_ptr + at, p.to(copy_ptr.dtype.element_ty), inside)
    tl.store(m_ptr + at, m, inside)
    tl.store(v_ptr + at, v, inside)


def fused_update(
    p: Tensor,
    g: Tensor,
    m: Tensor,
    v: Tensor,
    numbers: tuple[float, float, float, float, float],
    *,
    scale: Tensor,
    ok: Tensor,
    copy: Tensor | None = None,
) -> None:
    """Do what `adam_update` does to contiguous fp32 tensors on a GPU; `scale` and `ok` are read there."""
    rate, decay, beta1, beta2, epsilon = numbers
    # 1 - beta is taken here, in double precision: 1 - float32(0.999) is off by 5e-5.
    programs = (triton.cdiv(p.numel(), BLOCK),)
    with torch.cuda.device_of(p):
        _adam[programs](
            *(p, g, m, v, p if copy is None else copy, scale, ok, p.numel()),
            *(rate, decay, beta1, 1 - beta1, beta2, 1 - beta2, epsilon),
            copies=copy is not None,
            block=BLOCK,
        )
