"""Words that stand near others in a base's own embeddings: a list of candidates for synonyms, to be looked at.

A word is one that the vocabulary holds whole, in one token; near is what has the largest cosine, once the mean of all
tokens' vectors is taken off, which they share. What stands near is used alike, which opposites are too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import torch

from gpt1.base.errors import InputError, SettingError
from gpt1.base.files import require_absent, result_file
from gpt1.base.wording import many
from gpt1.inference.run import Run
from gpt1.tasks.catalog import refuse_words
from gpt1.tasks.preparing import read_table
from gpt1.text.spans import word_spans
from gpt1.text.tokenizer import Tokenizer

MOST = 3  # neighbours of a word
LEAST_COSINE = 0.4  # below which what stands nearest is seldom used alike
LEAST_LETTERS = 3  # of a word: shorter ones are the grammar's


class Neighbour(NamedTuple):
    """A word, one that stands near it, and the cosine of the two."""

    word: str
    near: str
    cosine: float


def list_neighbours(
    run: Run, table: str | Path, out: str | Path, *, overwrite: bool = False, **reading: Any
) -> list[Neighbour]:
    """Write the words of a labelled table's rows to learn from, each with those that stand near it, and return them.

    The file is a list as `gpt1 finetune` takes one for synonyms. `reading` is how the table is read, as to
    `gpt1.finetune`: `dev`, `test`, `columns`, `encoding` and the like.
    """
    out = Path(out)
    if out.suffix.lower() != ".tsv":
        raise SettingError(f"{out} is to be a list of words with a tab between them; give it a name that ends in .tsv")
    require_absent(out, overwrite)
    labelled = read_table(table, **reading)
    refuse_words(labelled.task, "a list of synonyms")
    found = near_words(run, (text for example in labelled.splits["train"] for text in example.texts))
    if not found:
        raise InputError(f"no two words of {table} stand near each other in {run.path}")
    with result_file(out, overwrite=overwrite) as file:
        file.writelines(f"{one.word}\t{one.near}\n".encode() for one in found)
    return found


@torch.no_grad()
def near_words(run: Run, texts: Iterable[str], *, most: int = MOST) -> list[Neighbour]:
    """Return for the words of texts which of them stand nearest, commonest words first."""
    ids = _whole_words(run.tokenizer, texts)
    words = list(ids)
    if len(words) < 2:
        raise InputError(
            f"these texts have {many(len(words), 'word')} of one token of the vocabulary; name other texts"
        )
    table_VC = run.network.tokens.double()
    vectors_NC = table_VC[torch.tensor([ids[word] for word in words])] - table_VC.mean(0)
    vectors_NC = torch.nn.functional.normalize(vectors_NC, dim=-1)
    cosines_NN = (vectors_NC @ vectors_NC.T).fill_diagonal_(-2)
    nearest = cosines_NN.topk(min(most, len(words) - 1))
    return [
        Neighbour(word, words[place], round(cosine, 4))
        for word, cosines, places in zip(words, nearest.values.tolist(), nearest.indices.tolist(), strict=True)
        for cosine, place in zip(cosines, places, strict=True)
        if cosine >= LEAST_COSINE
    ]


def _whole_words(tokenizer: Tokenizer, texts: Iterable[str]) -> dict[str, int]:
    """Return the token of each word in small letters that has one of its own, commonest words first."""
    counts = Counter(
        text[span.start : span.end].lower() for text in texts for span in word_spans(text) if _is_word(text, *span)
    )
    words = [word for word, _ in counts.most_common()]
    found: dict[str, int] = {}
    known = set()
    for word, ids in zip(words, tokenizer.encode_batch([f" {word}" for word in words]), strict=True):
        if len(ids) == 1 and ids[0] != tokenizer.unknown_id and ids[0] not in known:
            known.add(ids[0])
            found[word] = ids[0]
    return found


def _is_word(text: str, start: int, end: int) -> bool:
    return end - start >= LEAST_LETTERS and text[start:end].isalpha()
