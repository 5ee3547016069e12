"""Networks and nothing but networks: the paper's Transformer, its modern variants, its LSTM, and their loss."""

from gpt1.model.classifier import Classifier, HeadShape, build_classifier
from gpt1.model.int8 import in_int8
from gpt1.model.loss import linear_cross_entropy, token_losses
from gpt1.model.memory import Memory, Reading
from gpt1.model.network import Model, attention_weights, build_model, read
from gpt1.model.noise import Noise, step_noise
from gpt1.model.packing import Packing, pack
from gpt1.model.ready import ready_to_use

__all__ = [
    "Classifier",
    "HeadShape",
    "Memory",
    "Model",
    "Noise",
    "Packing",
    "Reading",
    "attention_weights",
    "build_classifier",
    "build_model",
    "in_int8",
    "linear_cross_entropy",
    "pack",
    "read",
    "ready_to_use",
    "step_noise",
    "token_losses",
]
