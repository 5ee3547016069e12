"""Models of transformers that write one text from another, opened from a folder on this machine and nowhere else.

Weights come from safetensors alone, and no code of the folder runs: what holds a pickle or asks for code of its own is
refused by its name before the library sees it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from gpt1.base.errors import FormatError, InputError, MissingDependency, SettingError
from gpt1.base.files import file_hash, read_json
from gpt1.base.wording import some

CONFIG = "config.json"
_WITH_CODE = (CONFIG, "tokenizer_config.json", "generation_config.json", "processor_config.json")
_PICKLES = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".joblib", ".npy", ".msgpack", ".h5")
BEAMS = 4  # at least
LONGEST = 512  # tokens, where a folder does not say
_ROOM = 16  # tokens that a text may be longer than twice its source


@dataclass(frozen=True, eq=False)
class Writer:
    """A model that writes texts anew."""

    folder: Path
    model: Any
    tokenizer: Any

    @property
    def longest(self) -> int:
        """How many tokens it reads."""
        known = [self.tokenizer.model_max_length, getattr(self.model.config, "max_position_embeddings", None)]
        return min((size for size in known if size is not None and size < 1_000_000), default=LONGEST)

    def fits(self, text: str) -> bool:
        """Whether it reads a text as a whole."""
        return len(self.tokenizer(text)["input_ids"]) <= self.longest

    @torch.no_grad()
    def write(self, texts: Sequence[str], copies: int) -> list[list[str]]:
        """Return so many texts for each, likeliest first: beam search, by nothing random."""
        read = self.tokenizer(list(texts), return_tensors="pt", padding=True).to(self.model.device)
        read.pop("token_type_ids", None)
        written = self.model.generate(
            **read,
            do_sample=False,
            num_beams=max(BEAMS, copies),
            num_return_sequences=copies,
            max_new_tokens=min(self.longest, 2 * int(read["input_ids"].shape[1]) + _ROOM),
        )
        found = [text.strip() for text in self.tokenizer.batch_decode(written, skip_special_tokens=True)]
        return [found[start : start + copies] for start in range(0, len(found), copies)]


def folder_identity(folder: Path) -> str:
    """Return what tells a folder's model from all others; one that runs code, or is none, is refused."""
    files = _checked(folder)
    digest = hashlib.sha256()
    for path in files:
        digest.update(f"{path.name} {file_hash(path)}\n".encode())
    return digest.hexdigest()


def open_writer(folder: Path, device: torch.device) -> Writer:
    """Open the model of a folder."""
    _checked(folder)
    try:
        from transformers import AutoModelForSeq2SeqLM, AutoTokenizer
        from transformers.utils import logging
    except ImportError:
        raise MissingDependency(f"{folder} is a model of transformers: pip install transformers") from None
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    here = {"local_files_only": True, "trust_remote_code": False}
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, **here)
        model = AutoModelForSeq2SeqLM.from_pretrained(folder, use_safetensors=True, **here)
    except Exception as error:  # the library and those below it raise errors of many families
        raise FormatError(f"{folder} cannot be opened as a model that writes text from text: {error}") from error
    return Writer(folder, model.float().eval().to(device), tokenizer)


def _checked(folder: Path) -> list[Path]:
    """Return the files of a folder that holds a model and nothing that could run."""
    if not folder.is_dir():
        raise InputError(f"{folder} is no folder; name one with a model of transformers, nothing is fetched")
    if not (folder / CONFIG).is_file():
        raise InputError(f"{folder} has no {CONFIG}; name a folder as transformers' save_pretrained writes it")
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    if pickles := [path.name for path in files if path.suffix.lower() in _PICKLES]:
        raise InputError(
            f"{folder} holds {some(pickles)}, which may be a pickle, and a pickle can run anything when it is opened; "
            "save the model again with transformers' save_pretrained, which writes model.safetensors, or remove it"
        )
    if code := [path.name for path in files if path.suffix.lower() in (".py", ".so", ".pyc")]:
        raise InputError(f"{folder} brings code of its own ({some(code)}), and no code of a folder is run here")
    for name in _WITH_CODE:
        if (folder / name).is_file() and _names_code(read_json(folder / name, "settings of a model")):
            raise InputError(
                f"{folder / name} asks for code of its own (auto_map), and no code of a folder is run here"
            )
    if not any(path.suffix == ".safetensors" for path in files):
        raise InputError(f"{folder} has no weights in safetensors; save the model again with save_pretrained")
    if not read_json(folder / CONFIG, "the settings of a model").get("is_encoder_decoder"):
        raise SettingError(f"{folder} is no model that writes text from text (seq2seq), such as T5, BART or Marian")
    return files


def _names_code(value: object) -> bool:
    return isinstance(value, dict) and bool(value.get("auto_map") or value.get("custom_pipelines"))
