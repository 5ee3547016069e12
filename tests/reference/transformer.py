"""The Transformer of sections 3.1 and 4.1, and its variants, read literally: one sequence, one head, one formula.

Plain functions on a dict of tensors. `masks` says what dropout keeps, by place: "tokens", "positions", "output" [R, C];
("attention", layer) [B, H, T, T]; ("branch_1", layer), ("branch_2", layer) [B, T, C]. Without masks nothing is dropped.
`bidirectional`: all positions see all of their sequence; the vector "mask" stands for tokens of `masked_BT`.
"""

from __future__ import annotations

import math

import torch


def kept(x, mask, rate):
    """Zero what is not kept, scale the rest."""
    return x if mask is None else torch.where(mask, x / (1 - rate), torch.zeros_like(x))


def norm(x, weights, name, shape):
    """Normalise the last dimension as the shape says."""
    gain = weights[f"{name}.gain"]
    if shape.norm == "rms":
        return x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-6) * gain
    mean = x.mean(-1, keepdim=True)
    variance = ((x - mean) ** 2).mean(-1, keepdim=True)
    return (x - mean) / torch.sqrt(variance + 1e-5) * gain + weights.get(f"{name}.bias", 0)


def linear(x, weights, name):
    """Multiply by a matrix stored output x input, add a bias if there is one."""
    return x @ weights[f"{name}.weight"].T + weights.get(f"{name}.bias", 0)


def activation(x, shape):
    """Apply the tanh GELU, or the squared ReLU."""
    if shape.activation == "relu2":
        return torch.where(x > 0, x * x, torch.zeros_like(x))
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def rotated(x_TD):
    """Turn the pair (i, i + D/2) of the vector at position t by t / 10000^(2i/D); sines and cosines in float32."""
    T, D = x_TD.shape
    rows = []
    for t in range(T):
        angles = [t / 10000 ** (2 * i / D) for i in range(D // 2)]
        cos = torch.tensor([math.cos(angle) for angle in angles], dtype=torch.float32).to(x_TD.dtype)
        sin = torch.tensor([math.sin(angle) for angle in angles], dtype=torch.float32).to(x_TD.dtype)
        first, second = x_TD[t, : D // 2], x_TD[t, D // 2 :]
        rows.append(torch.cat([first * cos - second * sin, first * sin + second * cos]))
    return torch.stack(rows)


def is_allowed(i, j, shape, is_global, bidirectional):
    """Whether position i looks at j: never ahead but both ways; with a window at it, global ones see and are seen."""
    if bidirectional:
        return True
    if j > i:
        return False
    return shape.window is None or i - j < shape.window or is_global[i] or is_global[j]


def attention(x_TC, weights, name, shape, mask, rate, is_global=None, bidirectional=False):
    """Attend within one sequence, head after head; `mask` [H, T, T] is of the attention weights."""
    T, C = x_TC.shape
    D = C // shape.heads
    is_global = is_global or [False] * T
    qkv = linear(x_TC, weights, f"{name}.qkv")
    heads = []
    for h in range(shape.heads):
        q, k, v = (qkv[:, part * C + h * D : part * C + (h + 1) * D] for part in range(3))
        if shape.positions == "rotary":
            q, k = rotated(q), rotated(k)
        if shape.qk_norm:
            q, k = (y / torch.sqrt((y * y).mean(-1, keepdim=True) + 1e-6) for y in (q, k))
        scores = q @ k.T / math.sqrt(D)
        for i in range(T):
            for j in range(T):
                if not is_allowed(i, j, shape, is_global, bidirectional):
                    scores[i, j] = -1e9
        exponentials = torch.exp(scores - scores.max(-1, keepdim=True).values)
        shares = exponentials / exponentials.sum(-1, keepdim=True)
        heads.append(kept(shares, None if mask is None else mask[h], rate) @ v)
    return linear(torch.cat(heads, dim=-1), weights, f"{name}.out")


def feed_forward(x_TC, weights, name, shape):
    """Apply the two layers to each position."""
    return linear(activation(linear(x_TC, weights, f"{name}.up"), shape), weights, f"{name}.down")


def forward(weights, ids_BT, shape, masks=None, rate=0.0, specials=(), bidirectional=False, masked_BT=None):
    """Return the last block's outputs [B, T, C] and the output matrix [V, C]; `specials` are ids."""
    masks = masks or {}
    tokens = kept(weights["tokens"], masks.get("tokens"), rate)
    output = tokens if shape.tied else kept(weights["output"], masks.get("output"), rate)
    sequences = []
    for b, ids_T in enumerate(ids_BT):

        def branch(name, layer, y, b=b):
            mask = masks.get((name, layer))
            return kept(y, None if mask is None else mask[b], rate)

        is_global = [
            shape.global_tokens > 0 and (t < shape.global_tokens or id in specials)
            for t, id in enumerate(ids_T.tolist())
        ]

        def attended(y, name, mask, is_global=is_global):
            return attention(y, weights, f"{name}.attention", shape, mask, rate, is_global, bidirectional)

        x = tokens[ids_T]
        if masked_BT is not None:
            x = torch.stack([weights["mask"] if masked_BT[b, t] else x[t] for t in range(len(x))])
        if shape.positions == "learned":
            x = x + kept(weights["positions"], masks.get("positions"), rate)[: len(ids_T)]
        for layer in range(shape.layers):
            name = f"blocks.{layer}"
            mask = masks.get(("attention", layer))
            mask = None if mask is None else mask[b]
            if shape.norm_first:
                n = norm(x, weights, f"{name}.norm_1", shape)
                x = x + branch("branch_1", layer, attended(n, name, mask))
                n = norm(x, weights, f"{name}.norm_2", shape)
                x = x + branch("branch_2", layer, feed_forward(n, weights, f"{name}.feed_forward", shape))
            else:
                a = branch("branch_1", layer, attended(x, name, mask))
                n = norm(x + a, weights, f"{name}.norm_1", shape)
                m = branch("branch_2", layer, feed_forward(n, weights, f"{name}.feed_forward", shape))
                x = norm(n + m, weights, f"{name}.norm_2", shape)
        sequences.append(norm(x, weights, "final_norm", shape) if shape.norm_first else x)
    return torch.stack(sequences), output


def loss(hidden_BTC, output_VC, targets_BT, weights_BT):
    """Return the weighted sum of negative log-probabilities; targets below 0 are not counted."""
    total = 0
    for hidden_TC, targets_T, weights_T in zip(hidden_BTC, targets_BT, weights_BT, strict=True):
        logits = hidden_TC @ output_VC.T
        logs = logits - logits.max(-1, keepdim=True).values
        logs = logs - torch.log(torch.exp(logs).sum(-1, keepdim=True))
        for t, target in enumerate(targets_T.tolist()):
            if target >= 0:
                total = total - weights_T[t] * logs[t, target]
    return total
