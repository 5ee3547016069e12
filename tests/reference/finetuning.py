"""Fine-tuning as in sections 3.2 and 3.3 of the paper and in its released code, read literally: padded, one table.

Plain functions on a dict of tensors: `body.*` as a network names its weights, `heads.NAME.weight` and `.bias`. Tokens,
special tokens and positions stand in one table, as in the released code; it takes its softmax over all of it, we leave
the positions out (`position_rows` puts them back). `masks` says what dropout keeps: "tokens", "positions" [R, C];
("attention", layer) [S, H, T, T]; ("branch_1", layer), ("branch_2", layer) [S, T, C] of all S = E x K sequences; "head"
[E, C], one for all K sequences of an example. Without masks nothing is dropped.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from tests.reference.transformer import attention, feed_forward, kept, linear, norm

# E examples, K sequences an example, T positions, C width, V tokens and specials, R rows of the table.

LAMBDA = 0.5
BINS = 6


class Losses(NamedTuple):
    """What an update is made of."""

    task: Tensor
    lm: Tensor
    total: Tensor
    logits: Tensor  # [E, classes]


def padded(examples, vocabulary):
    """Return the ids of tokens and of positions [E, K, T, 2], and 1 where a sequence is, 0 behind its end [E, K, T]."""
    T = max(len(sequence) for sequences in examples for sequence in sequences)
    ids = torch.zeros(len(examples), len(examples[0]), T, 2, dtype=torch.long)
    real = torch.zeros(ids.shape[:3], dtype=torch.float64)
    for e, sequences in enumerate(examples):
        for k, sequence in enumerate(sequences):
            ids[e, k, : len(sequence), 0] = torch.tensor(sequence)
            real[e, k, : len(sequence)] = 1
    ids[..., 1] = torch.arange(vocabulary, vocabulary + T)  # the rows behind those of the tokens
    return ids, real


def whole_table(weights, positions, masks, rate):
    """Return tokens, specials and as many positions as there are, dropped as a whole [R, C]."""
    tokens = kept(weights["body.tokens"], masks.get("tokens"), rate)
    return torch.cat([tokens, kept(weights["body.positions"], masks.get("positions"), rate)[:positions]])


def blocks(weights, x_TC, shape, masks, s, rate):
    """Return what the blocks make of sequence `s` of the batch."""
    body = {name.removeprefix("body."): x for name, x in weights.items() if name.startswith("body.")}

    def mask(place, layer):
        return masks[place, layer][s] if (place, layer) in masks else None

    for layer in range(shape.layers):
        name = f"blocks.{layer}"
        a = attention(x_TC, body, f"{name}.attention", shape, mask("attention", layer), rate)
        n = norm(x_TC + kept(a, mask("branch_1", layer), rate), body, f"{name}.norm_1", shape)
        m = feed_forward(n, body, f"{name}.feed_forward", shape)
        x_TC = norm(n + kept(m, mask("branch_2", layer), rate), body, f"{name}.norm_2", shape)
    return x_TC


def log_softmax(logits):
    """Return the logarithms of the shares."""
    logs = logits - logits.max(-1, keepdim=True).values
    return logs - torch.log(torch.exp(logs).sum(-1, keepdim=True))


def lm_loss(hidden_TC, rows_RC, ids_T, real_T):
    """Return the mean over a sequence's own tokens, the first excepted: position t predicts token t + 1."""
    logs = log_softmax(hidden_TC[:-1] @ rows_RC.T)
    losses = torch.stack([-logs[t, token] for t, token in enumerate(ids_T[1:].tolist())])
    return (losses * real_T[1:]).sum() / real_T[1:].sum()


def read_off(hidden_TC, ids_T, extract):
    """Return the vector where the extract token stands."""
    return hidden_TC[torch.argmax((ids_T == extract).double())]


def logits_of(vectors_KC, weights, name, shape):
    """Return the logits of one example from its dropped vectors: choices have one score each, both orders are added."""
    if shape == "choices":
        return linear(vectors_KC, weights, f"heads.{name}")[:, 0]
    return linear(vectors_KC.sum(0), weights, f"heads.{name}")


def soft_bins(score, score_range):
    """Return the shares of six bins: the lower neighbour of a score on a scale from 0 to 5, and the upper one."""
    low, high = score_range
    scaled = (score - low) / (high - low) * (BINS - 1)
    floor = math.floor(scaled)
    shares = [0.0] * BINS
    shares[floor] = 1 - (scaled - floor)
    if floor + 1 < BINS:
        shares[floor + 1] = scaled - floor
    return torch.tensor(shares, dtype=torch.float64)


def task_loss(logits, label, score_range):
    """Return the negative log-likelihood of one example's label, or of the soft bins of its score."""
    logs = log_softmax(logits)
    return -logs[label] if score_range is None else -(soft_bins(label, score_range) * logs).sum()


def label_losses(logits, given):
    """Return the binary cross-entropy of each of several labels: how unlikely its yes (1) or its no (0) was found."""
    yes = [1 / (1 + torch.exp(-logit)) for logit in logits]
    return torch.stack([-torch.log(p if one else 1 - p) for p, one in zip(yes, given, strict=True)])


def several_loss(logits_EA, labels, class_weights):
    """Return the mean over examples of the mean over labels; `class_weights` has for each label those of no and yes."""
    pairs = class_weights or [(1.0, 1.0)] * len(labels[0])
    shares = [[pair[one] for pair, one in zip(pairs, given, strict=True)] for given in labels]
    shares = torch.tensor(shares, dtype=torch.float64)
    losses = torch.stack([label_losses(logits, given) for logits, given in zip(logits_EA, labels, strict=True)])
    return (losses * shares).mean(1).sum() / shares.mean(1).sum()


def objective(
    weights,
    name,
    shape,
    network,
    examples,
    labels,
    *,
    score_range=None,
    class_weights=None,
    masks=None,
    rate=0.0,
    head_rate=0.0,
    position_rows=False,
):
    """Return the losses and logits of a batch: `examples` are lists of id sequences with their special tokens."""
    masks = masks or {}
    vocabulary = len(weights["body.tokens"])
    ids_EKT2, real_EKT = padded(examples, vocabulary)
    table_RC = whole_table(weights, ids_EKT2.shape[2], masks, rate)
    rows_RC = table_RC if position_rows else table_RC[:vocabulary]
    task, lm, logits = [], [], []
    for e, (ids_KT2, real_KT) in enumerate(zip(ids_EKT2, real_EKT, strict=True)):
        vectors = []
        for k, (ids_T2, real_T) in enumerate(zip(ids_KT2, real_KT, strict=True)):
            x_TC = table_RC[ids_T2].sum(1)  # the row of the token and the row of the position
            hidden_TC = blocks(weights, x_TC, network, masks, e * len(ids_KT2) + k, rate)
            lm.append(lm_loss(hidden_TC, rows_RC, ids_T2[:, 0], real_T))
            vector = read_off(hidden_TC, ids_T2[:, 0], vocabulary - 1)
            vectors.append(kept(vector, masks["head"][e] if "head" in masks else None, head_rate))
        logits.append(logits_of(torch.stack(vectors), weights, name, shape))
        if not isinstance(labels[e], list):
            task.append(task_loss(logits[-1], labels[e], score_range))
    lm_mean = torch.stack(lm).mean()
    if not task:  # several labels an example
        several = several_loss(torch.stack(logits), labels, class_weights)
        return Losses(several, lm_mean, several + LAMBDA * lm_mean, torch.stack(logits))
    shares = torch.ones(len(examples), dtype=torch.float64)
    if class_weights is not None:
        shares = torch.tensor([class_weights[label] for label in labels], dtype=torch.float64)
    task_mean = (torch.stack(task) * shares).sum() / shares.sum()
    return Losses(task_mean, lm_mean, task_mean + LAMBDA * lm_mean, torch.stack(logits))


def expected_score(logits, score_range):
    """Return the score that six logits predict: the expected bin, on the task's own scale."""
    low, high = score_range
    shares = torch.exp(log_softmax(logits))
    return low + (high - low) * sum(b * float(share) for b, share in enumerate(shares)) / (BINS - 1)


def linear_factor(x, warmup):
    """Return the factor of fine-tuning's schedule at x = (t - 1) / T."""
    return (x / warmup if warmup > 0 and x <= warmup else 1.0) * (1 - x)


def domain_loss(weights, network, source, target, *, masks=None, rate=0.0):
    """Return the mean over texts of both domains of -log of how likely the right one was found (Ganin et al., 2016).

    `domains.weight` and `.bias` give the logit of the target domain from the vector of a text, which is that of the
    task's head before anything of it is dropped. `masks` are those of all texts, the source domain's first.
    """
    masks, losses = masks or {}, []
    vocabulary = len(weights["body.tokens"])
    ids_EKT2, _ = padded([*source, *target], vocabulary)
    table_RC = whole_table(weights, ids_EKT2.shape[2], masks, rate)
    for e, ids_KT2 in enumerate(ids_EKT2):
        vector = 0
        for k, ids_T2 in enumerate(ids_KT2):
            hidden_TC = blocks(weights, table_RC[ids_T2].sum(1), network, masks, e * len(ids_KT2) + k, rate)
            vector = vector + read_off(hidden_TC, ids_T2[:, 0], vocabulary - 1)
        p = 1 / (1 + torch.exp(-linear(vector, weights, "domains")[0]))
        losses.append(-torch.log(1 - p if e < len(source) else p))
    return torch.stack(losses).mean()
