"""Text to ids and back: the paper's tokenizer, a byte-level one, and training a vocabulary for either."""
