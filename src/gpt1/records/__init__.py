"""What is kept of runs and of what was measured, as values: the shape of each file, and nothing of how it is made."""

# What other rooms may import of this one's modules.
OFFERS = {
    "evaluation": ["Cut", "Evaluation", "Prediction", "RecordedTable"],
    "run": ["FINETUNING", "Hardware", "Imported", "PRETRAINING", "RecordedCorpus", "RecordedSource", "RunRecord"],
    "seeds": ["RESULT_FILE", "SEEDS_FILE", "SEED_FOLDER", "Scores", "SeedResult", "SeedsResult"],
    "study": ["CellCounts", "CellFigures", "CellRecord", "Cost", "StudyRecord"],
}
