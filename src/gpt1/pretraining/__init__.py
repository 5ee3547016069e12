"""Corpus, model and loop put together: what a network reads before it has seen a label."""
