"""What is kept of runs and of what was measured, as values: the shape of each file, and nothing of how it is made."""

# What other rooms may import of this one's modules.
OFFERS = {"run": ["FINETUNING", "Hardware", "Imported", "PRETRAINING", "RecordedCorpus", "RecordedSource", "RunRecord"]}
