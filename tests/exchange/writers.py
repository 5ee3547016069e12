"""Tiny models of transformers that write text from text, made in a moment, with random weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

WORDS = [
    "Ann",
    "Tom",
    "the",
    "a",
    "lamp",
    "girl",
    "sold",
    "saw",
    "old",
    "cat",
    "sailor",
    "film",
    "good",
    "bad",
    "fine",
    "poor",
    "very",
    "one",
]


def make_writer(folder: Path, words: Sequence[str] = WORDS, *, seed: int = 0, longest: int = 32) -> Path:
    """Make a T5 of one layer whose vocabulary is whole words; what it writes means nothing."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, T5Config, T5ForConditionalGeneration, utils

    vocabulary = {word: number for number, word in enumerate(["<pad>", "</s>", "<unk>", *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        eos_token="</s>",
        unk_token="<unk>",
        model_max_length=longest,
    )
    config = T5Config(
        vocab_size=len(vocabulary),
        d_model=16,
        d_kv=8,
        d_ff=32,
        num_layers=1,
        num_heads=2,
        pad_token_id=0,
        eos_token_id=1,
        decoder_start_token_id=0,
    )
    utils.logging.disable_progress_bar()
    torch.manual_seed(seed)
    model = T5ForConditionalGeneration(config)
    for weights in model.parameters():
        torch.nn.init.normal_(weights, std=0.6)
    model.save_pretrained(folder)
    fast.save_pretrained(folder)
    return folder
