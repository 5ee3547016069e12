"""The one training loop and its parts: optimisers, schedules, several processes."""
