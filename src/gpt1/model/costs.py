"""What a network costs, from its shape alone: parameters, and floating-point operations a token.

The latter are for the share of a device's peak that training reaches.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpt1.recipes.values import LSTM, Shape


def product_weights(shape: Shape, vocab_size: int) -> int:
    """Return how many weights take part in matrix products: all matrices but the position table; tied ones once."""
    output = vocab_size * shape.width
    if shape.kind == LSTM:
        return 4 * shape.units * (shape.width + shape.units) + shape.units * shape.width + output
    return shape.layers * (4 * shape.width**2 + 2 * shape.width * shape.feed_forward) + output


SCORES, PROJECTIONS, FEED_FORWARD = "attention scores", "projections", "feed-forward"


def layer_flops_per_token(shape: Shape) -> dict[str, float]:
    """Return the operations of forward and backward pass of one layer a token, by part.

    For n tokens of width d the scores cost n^2 d, with a window of w n w d, and all else n d^2. Global tokens are those
    of pre-training, the first ones, which look back no farther than at each other.
    """
    if shape.kind == LSTM:
        return {LSTM: 6.0 * product_weights(shape, vocab_size=0)}
    window = min(shape.window or shape.context, shape.context)
    seen = window - window * window / (2 * shape.context)  # keys a query has, on average
    seen += shape.global_tokens * (1 - window / shape.context)  # those that are out of its window
    return {
        SCORES: 12 * shape.width * seen,
        PROJECTIONS: 6.0 * 4 * shape.width**2,
        FEED_FORWARD: 6.0 * 2 * shape.width * shape.feed_forward,
    }


def flops_per_token(shape: Shape, vocab_size: int) -> float:
    """Return the operations of forward and backward pass a token: six a weight, and attention over what is seen."""
    attention = shape.layers * layer_flops_per_token(shape).get(SCORES, 0.0)
    return 6 * product_weights(shape, vocab_size) + attention


def recurrent_flops_per_token(shape: Shape) -> float:
    """Return the operations a token that must wait for the token before, forward, or after, backward; an LSTM has them.

    The gradient of the recurrent weights is one product over all positions, and waits for nothing.
    """
    return 4 * 4 * shape.units**2 if shape.kind == LSTM else 0.0


@dataclass(frozen=True)
class Parameters:
    """How many numbers a network learns, and where they are."""

    embeddings: int  # tokens and positions
    layers: int  # the blocks, or the LSTM and its projection
    output: int  # 0 where the output matrix is the token embedding

    @property
    def total(self) -> int:
        """All of them."""
        return self.embeddings + self.layers + self.output


def count_parameters(shape: Shape, vocab_size: int) -> Parameters:
    """Count the parameters of a network: 116,534,784 for the paper's with its 40,478 tokens.

    So they are told of every run: what each fine-tuning adds anew, special tokens and heads, is not counted.
    """
    table = vocab_size * shape.width
    positions = shape.context * shape.width if shape.kind != LSTM and shape.positions == "learned" else 0
    return Parameters(
        embeddings=table + positions,
        layers=product_weights(shape, vocab_size=0) + _layer_vectors(shape),
        output=0 if shape.tied else table,
    )


def _layer_vectors(shape: Shape) -> int:
    """Return the elements of all biases and gains."""
    width = shape.width
    if shape.kind == LSTM:
        return 4 * shape.units + width if shape.bias else 0
    biases = 3 * width + width + shape.feed_forward + width if shape.bias else 0
    norm = 2 * width if shape.norm == "layer" and shape.bias else width
    return shape.layers * (biases + 2 * norm) + (norm if shape.norm_first else 0)
