"""Labelled tasks, a pre-trained network and the loop put together: what a model learns from few labels."""
