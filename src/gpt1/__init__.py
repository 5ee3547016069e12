"""GPT-1 end to end: a model is pre-trained on unlabelled text, then learns tasks from few labels.

The names in `__all__` are stable; everything else may change without notice. Each is imported when first used, so
that `import gpt1` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpt1.base.errors import Gpt1Error, InputError
    from gpt1.corpus.prepare import prepare
    from gpt1.corpus.vocabularies import train_tokenizer
    from gpt1.estimators import GPTClassifier, GPTEmbedder, GPTRegressor
    from gpt1.finetuning.finetune import finetune
    from gpt1.inference.run import load_base, load_run
    from gpt1.labelling.choosing import next_labels
    from gpt1.labelling.suspects import suspect_labels
    from gpt1.pretraining.pretrain import pretrain
    from gpt1.recipes.catalog import recipe
    from gpt1.starting.start import start
    from gpt1.text.tokenizer import load_tokenizer
    from gpt1.tuning.tune import tune

__version__ = "0.1.0"

__all__ = [
    "GPTClassifier",
    "GPTEmbedder",
    "GPTRegressor",
    "Gpt1Error",
    "InputError",
    "finetune",
    "load_base",
    "load_run",
    "load_tokenizer",
    "next_labels",
    "prepare",
    "pretrain",
    "recipe",
    "start",
    "suspect_labels",
    "train_tokenizer",
    "tune",
]

_HOMES = {
    "GPTClassifier": "gpt1.estimators",
    "GPTEmbedder": "gpt1.estimators",
    "GPTRegressor": "gpt1.estimators",
    "Gpt1Error": "gpt1.base.errors",
    "InputError": "gpt1.base.errors",
    "finetune": "gpt1.finetuning.finetune",
    "load_base": "gpt1.inference.run",
    "load_run": "gpt1.inference.run",
    "load_tokenizer": "gpt1.text.tokenizer",
    "next_labels": "gpt1.labelling.choosing",
    "prepare": "gpt1.corpus.prepare",
    "pretrain": "gpt1.pretraining.pretrain",
    "recipe": "gpt1.recipes.catalog",
    "start": "gpt1.starting.start",
    "suspect_labels": "gpt1.labelling.suspects",
    "train_tokenizer": "gpt1.corpus.vocabularies",
    "tune": "gpt1.tuning.tune",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'gpt1' has no attribute '{name}'")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
