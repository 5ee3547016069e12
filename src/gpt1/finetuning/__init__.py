"""Labelled tasks, a pre-trained network and the loop put together: what a model learns from few labels."""

# What other rooms may import of this one's modules.
OFFERS = {
    "counting": ["CountedWords", "MOST_REPEATED"],
    "data": ["Source", "read_labelled", "read_source", "truncation_notices"],
    "drifting": ["find_drift"],
    "ensembling": ["times_as_long"],
    "finetune": ["chosen_recipe", "counted_words", "finetune", "is_cross_validated"],
    "measure": ["evaluate_run", "evaluation_file", "predictions_file"],
    "results": ["decisions", "evaluations", "results", "results_blocks"],
    "seeds": ["found_seeds", "is_done", "read_result", "summarise"],
}
