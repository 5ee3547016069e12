"""The one training loop and its parts: optimisers, schedules, checkpoints, run folders."""
