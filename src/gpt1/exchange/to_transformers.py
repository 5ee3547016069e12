"""A run out to transformers: `OpenAIGPTLMHeadModel`, or of a fine-tuned one `OpenAIGPTForSequenceClassification`.

That classifier has no bias on its head and reads the last token that is not padding. Ours reads the extract token,
which is the last; its bias is folded into the last norm's: a shift of what the head reads that shifts its answers so.
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from gpt1.base.errors import InputError
from gpt1.base.files import require_own_folder, whole_folder, write_json
from gpt1.exchange.names import (
    CONFIG_FILE,
    EPSILON,
    FAST_FILE,
    MERGES_FILE,
    SUMS_FILE,
    VOCABULARY_FILE,
    WEIGHTS_FILE,
    check_shape,
    to_theirs,
    write_sums,
)
from gpt1.inference.answering import left_behind, network_temperature, task_of
from gpt1.inference.run import BODY, Run
from gpt1.model.classifier import head_name
from gpt1.recipes.values import Shape
from gpt1.runs.checkpoints import Tensors
from gpt1.tasks.catalog import Task, refuse_words
from gpt1.text.specials import SPECIALS
from gpt1.text.tokenizer import Tokenizer

FILES = {CONFIG_FILE, WEIGHTS_FILE, VOCABULARY_FILE, MERGES_FILE, FAST_FILE, "tokenizer_config.json"}
OWN_TOKENIZER = "tokenizer.gpt1.json"
FOLDED = 1e-5  # how far a folded bias may be off, relative to the bias


def export_transformers(run: Run, out: str | Path, *, task: str | None = None, overwrite: bool = False) -> list[str]:
    """Write a run as a folder that transformers opens; return what a person should know about it.

    Of a fine-tuned run goes out what answers `task` (or its only one). An export that `out` holds is replaced only to
    `overwrite` it.
    """
    out = Path(out)
    shape = run.recipe.shape
    check_shape(shape, str(run.path))
    if run.is_bidirectional:
        raise InputError(
            f"{run.path} looks both ways, and transformers' OpenAIGPT looks back alone: its answers would be others; "
            "serve it with gpt1 itself"
        )
    require_own_folder(out, lambda entry: entry.name in {*FILES, OWN_TOKENIZER, SUMS_FILE})
    if not overwrite and out.is_dir() and any(out.iterdir()):
        raise InputError(f"{out} holds an export already; choose another folder, or replace it with `overwrite=True`")
    if run.has_tasks:
        refuse_words(task_of(run, task), "an export to transformers")
        weights, described = _classifier(run, task_of(run, task))
    else:
        weights = to_theirs(run.checkpoint.model, shape.layers)
        described = config(shape, run.record.vocab_size)
    with whole_folder(out, overwrite=overwrite) as folder:
        save_file(weights, folder / WEIGHTS_FILE, metadata={"format": "pt"})
        write_json(folder / CONFIG_FILE, described)
        said = _write_tokenizer(run.tokenizer, folder, fine_tuned=run.has_tasks)
        said += left_behind(run, task_of(run, task)) if run.has_tasks else []
        write_sums(folder)
    return said


def config(shape: Shape, vocab_size: int) -> dict[str, object]:
    """Return what config.json says of a network of the paper's form."""
    return {
        "model_type": "openai-gpt",
        "architectures": ["OpenAIGPTLMHeadModel"],
        "vocab_size": vocab_size,
        "n_positions": shape.context,
        "n_embd": shape.width,
        "n_layer": shape.layers,
        "n_head": shape.heads,
        "afn": "gelu",  # which is the tanh one there
        "resid_pdrop": shape.dropout,
        "embd_pdrop": shape.dropout,
        "attn_pdrop": shape.dropout,
        "layer_norm_epsilon": EPSILON,
        "dtype": "float32",
    }


def _classifier(run: Run, task: Task) -> tuple[Tensors, dict[str, object]]:
    if task.sequences != 1 or task.score_range is not None:
        raise InputError(
            f"task '{task.name}' is answered from {task.sequences} sequences or as a score; transformers' OpenAIGPT "
            "answers only with the classes of one text or pair, so this cannot be exported"
        )
    shape, model = run.recipe.shape, run.checkpoint.model
    head = f"heads.{head_name(task.name)}"
    body = {name.removeprefix(BODY): tensor for name, tensor in model.items() if name.startswith(BODY)}
    last_norm = f"blocks.{shape.layers - 1}.norm_2.bias"
    shift = folded(model[f"{head}.weight"], model[f"{head}.bias"], str(run.path))
    body[last_norm] = (body[last_norm].double() + shift).float()
    described = {
        **config(shape, run.record.vocab_size + len(SPECIALS)),
        "architectures": ["OpenAIGPTForSequenceClassification"],
        "id2label": {str(index): label for index, label in enumerate(task.labels)},
        "label2id": {label: index for index, label in enumerate(task.labels)},
        **({"problem_type": "multi_label_classification"} if task.is_multilabel else {}),
        # Start stands first and nowhere else: as padding it is never taken for the last token of a text.
        "pad_token_id": run.tokenizer.specials["start"],
    }
    score = model[f"{head}.weight"].double() / network_temperature(run, task)  # of weight and folded bias alike
    return {**to_theirs(body, shape.layers), "score.weight": score.float()}, described


def folded(weight_AC: Tensor, bias_A: Tensor, where: str) -> Tensor:
    """Return the shift [C] of a head's input that has the effect of its bias, in float64."""
    weight, bias = weight_AC.double(), bias_A.double()
    shift: Tensor = torch.linalg.pinv(weight) @ bias
    if (weight @ shift - bias).norm() > FOLDED * bias.norm():
        raise InputError(f"{where}: the head's rows depend on each other, so its bias cannot be folded away")
    return shift


def _write_tokenizer(tokenizer: Tokenizer, folder: Path, *, fine_tuned: bool) -> list[str]:
    """Write the vocabulary as the library reads it, and return what is not the same there."""
    said = []
    tokenizer.save(folder / OWN_TOKENIZER)
    if (theirs := tokenizer.library_tokenizer()) is not None:
        theirs.save(str(folder / FAST_FILE))
        write_json(folder / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast"})
    else:
        vocabulary = tokenizer.vocabulary
        write_json(folder / VOCABULARY_FILE, {token: id for id, token in enumerate(vocabulary.tokens)})
        merges = "".join(f"{left} {right}\n" for left, right in vocabulary.merges)
        (folder / MERGES_FILE).write_text(f"#version: 0.2\n{merges}", "utf-8")
        write_json(folder / "tokenizer_config.json", {"tokenizer_class": "OpenAIGPTTokenizer"})
        said.append(
            "transformers' OpenAIGPTTokenizer cuts words by other rules than the paper's and gives other ids for some "
            f"texts; for the same ids encode with gpt1: load_tokenizer('{OWN_TOKENIZER}')"
        )
    if fine_tuned:
        specials = ", ".join(f"{name} {id}" for name, id in tokenizer.specials.items())
        said.append(
            f"a text goes in between start and extract, as the paper has it, a pair parted by delimiter: {specials}"
        )
    return said
