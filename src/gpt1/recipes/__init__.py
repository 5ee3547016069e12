"""What a run is, as values."""
