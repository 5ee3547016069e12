"""A network seen on the way: how it goes on from places in the validation text, how it looks at a sentence there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from gpt1.inference.attention_maps import as_rows, looks_everywhere
from gpt1.inference.generation import continue_ids
from gpt1.inference.sampling import SamplingParams
from gpt1.model import Model, prepare_for_inference
from gpt1.pretraining.stream import TokenStream
from gpt1.recipes.values import FSDP, TRANSFORMER, Recipe
from gpt1.runs.events import AttentionSample, Sampled
from gpt1.runs.folder import run_tokenizer
from gpt1.text.tokenizer import Tokenizer
from gpt1.training.distributed import World

PROMPT, TOKENS, SAMPLES = 16, 48, 2  # tokens, tokens, how many
SHORTEST, LONGEST = 8, 24  # tokens that are looked at: enough to see something, few enough to read
SEARCHED = 1_000  # tokens in which sentences like that are looked for
ENDS = (".", "!", "?")  # of a sentence
DIGITS = 3  # of a share of attention


def sampler(model: Model, valid: TokenStream, run: Path, recipe: Recipe, world: World) -> Callable[[int], Sampled]:
    """Let the model go on from places in the validation text and look at sentences of it, the same ones each time."""
    prompt_tokens = min(PROMPT, len(valid), model.shape.context - 1)
    places = [index * (len(valid) - prompt_tokens) // SAMPLES for index in range(SAMPLES)]
    prompts = [row.tolist() for row in valid.read(places, prompt_tokens)]
    beginning = valid.read([0], min(SEARCHED, len(valid)))[0].tolist()
    shared_out = world.size > 1 and recipe.training.parallelism == FSDP  # then no process has whole weights to cast

    def sample(step: int) -> Sampled:
        tokenizer = run_tokenizer(run)
        seen = model if shared_out else prepare_for_inference(model)
        written = continue_ids(
            seen, prompts, SamplingParams(max_new_tokens=TOKENS, seed=recipe.training.seed + step * SAMPLES)
        )
        samples = [
            {"prompt": tokenizer.decode(prompt), "text": tokenizer.decode(ids)}
            for prompt, ids in zip(prompts, written, strict=True)
        ]
        attends = model.shape.kind == TRANSFORMER
        return Sampled(step, samples, _attention(seen, tokenizer, beginning) if attends else None)

    return sample


def _attention(model: Model, tokenizer: Tokenizer, beginning: Sequence[int]) -> AttentionSample:
    ids = find_sentences(tokenizer, beginning, min(LONGEST, model.shape.context))
    weights = [as_rows(layer, DIGITS) for layer in looks_everywhere(model, ids)]
    return {"tokens": tokenizer.decode_each_after((), ids), "weights": weights}


def find_sentences(tokenizer: Tokenizer, ids: Sequence[int], most: int) -> Sequence[int]:
    """Return the first sentence that is not short and fits, with those after it that fit too; else the beginning."""
    words = [tokenizer.decode([id]).strip() for id in ids]
    ends = [place for place, word in enumerate(words, 1) if word in ENDS]
    for start in (0, *ends):
        while start < len(words) and not words[start]:  # blank lines
            start += 1
        end = max((end for end in ends if start < end <= start + most), default=start)
        if end - start >= SHORTEST:
            return ids[start:end]
    return ids[:most]
