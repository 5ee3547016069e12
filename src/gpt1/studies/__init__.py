"""The paper's experiments: many runs and measurements, kept cell by cell, as tables and curves."""
