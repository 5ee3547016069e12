"""Runs behind an HTTP API that OpenAI's clients speak."""
