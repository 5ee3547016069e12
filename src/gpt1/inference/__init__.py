"""A trained run in use."""
