"""OpenAI's release and transformers' OpenAIGPT in small: the exact files, with random numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gpt1.text.tokenizer import Tokenizer

LAYERS, WIDTH, CONTEXT = 2, 128, 12


def write_vocabulary(folder: Path, tokenizer: Tokenizer, vocabulary: str, merges: str) -> None:
    ids = {token: id for id, token in enumerate(tokenizer.vocabulary.tokens)}
    (folder / vocabulary).write_text(json.dumps(ids))
    lines = "".join(f"{left} {right}\n" for left, right in tokenizer.vocabulary.merges)
    (folder / merges).write_text("#version: 0.2\n" + lines)


def write_release(folder: Path, tokenizer: Tokenizer, seed: int = 0) -> dict[str, np.ndarray]:
    """Write a release and return its arrays by the names of OpenAI's code, as the paper's section on it has them."""
    draw = np.random.default_rng(seed)
    shapes: dict[str, list[int]] = {"we_positions": [CONTEXT, WIDTH], "we_tokens": [tokenizer.vocab_size, WIDTH]}
    for layer in range(LAYERS):
        for name, size in (
            ("attn/c_attn/w", [1, WIDTH, 3 * WIDTH]),
            ("attn/c_attn/b", [3 * WIDTH]),
            ("attn/c_proj/w", [1, WIDTH, WIDTH]),
            ("attn/c_proj/b", [WIDTH]),
            ("ln_1/g", [WIDTH]),
            ("ln_1/b", [WIDTH]),
            ("mlp/c_fc/w", [1, WIDTH, 4 * WIDTH]),
            ("mlp/c_fc/b", [4 * WIDTH]),
            ("mlp/c_proj/w", [1, 4 * WIDTH, WIDTH]),
            ("mlp/c_proj/b", [WIDTH]),
            ("ln_2/g", [WIDTH]),
            ("ln_2/b", [WIDTH]),
        ):
            shapes[f"h{layer}/{name}"] = size
    arrays = {name: draw.normal(0, 0.3, size).astype(np.float32) for name, size in shapes.items()}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "params_shapes.json").write_text(json.dumps(list(shapes.values())))
    flat = np.concatenate([array.ravel() for array in arrays.values()])
    for number, piece in enumerate(np.array_split(flat, 10)):
        np.save(folder / f"params_{number}.npy", piece)
    write_vocabulary(folder, tokenizer, "encoder_bpe_40000.json", "vocab_40000.bpe")
    return arrays


def openai_gpt(tokenizer: Tokenizer, **changes: Any) -> Any:
    """Return an OpenAIGPT of transformers with random weights, away from where they begin."""
    from transformers import OpenAIGPTConfig, OpenAIGPTLMHeadModel

    torch.manual_seed(0)
    sizes = {"n_positions": CONTEXT, "n_embd": WIDTH, "n_layer": LAYERS, "n_head": 2}
    model = OpenAIGPTLMHeadModel(OpenAIGPTConfig(**{"vocab_size": tokenizer.vocab_size, **sizes, **changes})).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn(weight.shape) * 0.2)
    return model


def save_openai_gpt(folder: Path, model: Any, tokenizer: Tokenizer) -> Path:
    """Save an OpenAIGPT with its vocabulary, as on the hub."""
    model.save_pretrained(folder)
    write_vocabulary(folder, tokenizer, "vocab.json", "merges.txt")
    return folder


def relative(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """Return the largest difference, relative to the largest number."""
    return float((found - wanted).abs().max() / wanted.abs().max())
