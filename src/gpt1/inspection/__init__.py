"""Looking before training: is this text fit to train on, and what would a recipe make of it on this machine."""
