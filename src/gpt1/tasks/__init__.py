"""Labelled rows to token sequences: which tasks exist, how their rows are read, laid out and stored."""
