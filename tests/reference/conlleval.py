"""conlleval (the script of the CoNLL shared tasks), word by word as it goes through a file, written out in Python.

Its rules know B, I, E and O; S stands beside them as in seqeval, its port to Python, where each B begins a
chunk too. Nothing here looks at a whole span: chunks are counted as they end, right where they began and ended
together.
"""

from collections import Counter


def parts(label):
    sign, _, kind = label.partition("-")
    return sign, kind


def end_of_chunk(before, tag, kind_before, kind):
    if before in ("E", "S"):
        return True
    if before == "B" and tag in ("B", "S", "O"):
        return True
    if before == "I" and tag in ("B", "S", "O"):
        return True
    return before != "O" and kind_before != kind


def start_of_chunk(before, tag, kind_before, kind):
    if tag in ("B", "S"):
        return True
    if before in ("E", "S", "O") and tag in ("E", "I"):
        return True
    return tag != "O" and kind_before != kind


def conlleval(labels, answers):
    """Return right, given and there, by kind of chunk, of sentences of labels and of as many of answers."""
    right, given, there = Counter(), Counter(), Counter()
    for own, theirs in zip(labels, answers, strict=True):
        in_correct = False
        last_correct = last_guessed = ("O", "")
        for correct, guessed in zip([*map(parts, own), ("O", "")], [*map(parts, theirs), ("O", "")], strict=True):
            correct_ends = end_of_chunk(last_correct[0], correct[0], last_correct[1], correct[1])
            guessed_ends = end_of_chunk(last_guessed[0], guessed[0], last_guessed[1], guessed[1])
            if in_correct:
                if correct_ends and guessed_ends and last_guessed[1] == last_correct[1]:
                    in_correct = False
                    right[last_correct[1]] += 1
                elif correct_ends != guessed_ends or guessed[1] != correct[1]:
                    in_correct = False
            correct_starts = start_of_chunk(last_correct[0], correct[0], last_correct[1], correct[1])
            guessed_starts = start_of_chunk(last_guessed[0], guessed[0], last_guessed[1], guessed[1])
            if correct_starts and guessed_starts and guessed[1] == correct[1]:
                in_correct = True
            if correct_starts:
                there[correct[1]] += 1
            if guessed_starts:
                given[guessed[1]] += 1
            last_correct, last_guessed = correct, guessed
    return right, given, there


def f1(labels, answers):
    """Return span F1 of all chunks together."""
    right, given, there = (sum(counts.values()) for counts in conlleval(labels, answers))
    precision = right / given if given else 0.0
    recall = right / there if there else 0.0
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0
