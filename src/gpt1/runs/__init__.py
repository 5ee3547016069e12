"""A run on disk: its folder, its checkpoints, and the files that grow with it."""
