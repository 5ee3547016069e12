"""Writing read literally: for every token the whole context is read from its beginning; nothing is remembered."""

from __future__ import annotations

import torch


def kept(ids, context):
    """Keep a context as it is; of one that is too long, the last half of a full one."""
    return list(ids) if len(ids) <= context else list(ids)[-(context // 2) :]


def next_logits(model, ids):
    """Return the scores of the next token."""
    with torch.no_grad():
        hidden, output = model(torch.tensor([ids]))
        return hidden[0, -1] @ output[: model.vocab_size].T


def greedy(model, prompt, new_tokens):
    """Return the likeliest token after another."""
    ids, written = kept(prompt, model.shape.context), []
    for _ in range(new_tokens):
        written.append(int(next_logits(model, ids).argmax()))
        ids = kept([*ids, written[-1]], model.shape.context)
    return written


def allowed(logits, before, *, temperature, top_k, top_p, repetition_penalty):
    """Return the probability of every token, 0 for those that may not be drawn; one at a time, in plain numbers."""
    scores = [float(score) for score in logits]
    for id in set(before):
        scores[id] = scores[id] / repetition_penalty if scores[id] > 0 else scores[id] * repetition_penalty
    scores = [score / temperature for score in scores]
    order = sorted(range(len(scores)), key=lambda id: -scores[id])[:top_k]
    weights = {id: 2.718281828459045 ** (scores[id] - scores[order[0]]) for id in order}
    total, reached, chosen = sum(weights.values()), 0.0, {}
    for id in order:
        chosen[id] = weights[id]
        reached += weights[id] / total
        if top_p is not None and reached >= top_p:
            break
    return [chosen.get(id, 0.0) / sum(chosen.values()) for id in range(len(scores))]
