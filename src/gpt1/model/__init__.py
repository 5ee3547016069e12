"""Networks and nothing but networks: the paper's Transformer, its modern variants, its LSTM, and their loss."""

from gpt1.model.loss import linear_cross_entropy, token_losses
from gpt1.model.network import Model, build_model
from gpt1.model.noise import Noise, step_noise

__all__ = ["Model", "Noise", "build_model", "linear_cross_entropy", "step_noise", "token_losses"]
