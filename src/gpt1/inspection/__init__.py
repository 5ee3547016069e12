"""Looking before training: is this text fit to train on (`examine`), said as values and as a page for people."""
