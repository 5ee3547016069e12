"""Section 3.3 and figure 1 of the paper, read literally; while a sequence is too long, one token is removed."""

from __future__ import annotations

START, DELIMITER, EXTRACT = "S", "D", "E"


def reference_sequences(shape, parts):
    """Write the sequences of an example as figure 1 of the paper has them."""
    if shape == "single":
        return [[START, *parts[0], EXTRACT]]
    if shape == "pair":
        return [[START, *parts[0], DELIMITER, *parts[1], EXTRACT]]
    if shape == "both":
        return [
            [START, *parts[0], DELIMITER, *parts[1], EXTRACT],
            [START, *parts[1], DELIMITER, *parts[0], EXTRACT],
        ]
    sequences = []
    for answer in parts[2:]:
        sequences.append([START, *parts[0], *parts[1], DELIMITER, *answer, EXTRACT])
    return sequences


def reference_layout(shape, parts, context):
    """Return the sequences and how many tokens had to go, one at a time."""
    parts = [list(part) for part in parts]
    removed = 0
    while any(len(sequence) > context for sequence in reference_sequences(shape, parts)):
        if shape == "choices" and parts[0]:
            victim = parts[0]
        else:
            victim = parts[0]
            for part in parts[1:]:
                if len(part) > len(victim):
                    victim = part
        del victim[-1]
        removed += 1
    return reference_sequences(shape, parts), removed
