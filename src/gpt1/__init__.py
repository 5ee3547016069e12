"""GPT-1 end to end: a model reads unlabelled text, then learns tasks from few labels."""

__version__ = "0.1.0"
