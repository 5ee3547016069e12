"""The zero-shot rules of section 5, read literally: one example, one reading, one token at a time.

`encode` turns a text into ids, `forward` ids [1, T] into hidden states and the output matrix, both in float64.
"""

from __future__ import annotations

import re


def token_logs(ids, forward):
    """Return the log-probability of each token but the first, after those before it."""
    import torch

    hidden, output = forward(torch.tensor([ids]))
    found = []
    for place in range(1, len(ids)):
        logits = output @ hidden[0, place - 1]
        found.append(float(logits[ids[place]] - torch.logsumexp(logits, 0)))
    return found


def end_logs(before, end, forward):
    """Return the log-probabilities of the tokens of `end` after `before`."""
    return token_logs([*before, *end], forward)[len(before) - 1 :]


def mean(values):
    """Return the mean of numbers."""
    return sum(values) / len(values)


def cola(text, encode, forward):
    """Return the mean log-probability of a sentence, its first token apart."""
    return [mean(token_logs(encode(text), forward))]


def sst2(text, encode, forward):
    """Return the log-probabilities of `negative` and `positive` after the text and `very`."""
    return [sum(end_logs(encode(text) + encode("very"), encode(word), forward)) for word in ("negative", "positive")]


def choices(context, question, answers, encode, forward):
    """Return the mean log-probability of each answer's tokens after document and question."""
    return [mean(end_logs(encode(context) + encode(question), encode(answer), forward)) for answer in answers]


def dpr(text, pronoun, candidates, encode, forward):
    """Return, for each candidate in the pronoun's place, the mean log-probability of the rest of the text."""
    before, rest = re.split(rf"\b{pronoun}\b", text, maxsplit=1)
    return [mean(end_logs(encode(before) + encode(candidate), encode(rest), forward)) for candidate in candidates]
