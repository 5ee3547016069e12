"""What a network costs: floating-point operations a token, for the share of a device's peak that training reaches."""

from __future__ import annotations

from gpt1.recipes.values import LSTM, Shape


def product_weights(shape: Shape, vocab_size: int) -> int:
    """Return how many weights take part in matrix products: all matrices but the position table; tied ones once."""
    output = vocab_size * shape.width
    if shape.kind == LSTM:
        return 4 * shape.units * (shape.width + shape.units) + shape.units * shape.width + output
    return shape.layers * (4 * shape.width**2 + 2 * shape.width * shape.feed_forward) + output


def flops_per_token(shape: Shape, vocab_size: int) -> float:
    """Return the operations of forward and backward pass a token: six a weight, and attention over what is seen."""
    attention = 0.0
    if shape.kind != LSTM:
        window = min(shape.window or shape.context, shape.context)
        seen = window - window * window / (2 * shape.context)  # keys a query has, on average
        attention = 12 * shape.layers * shape.width * seen
    return 6 * product_weights(shape, vocab_size) + attention
