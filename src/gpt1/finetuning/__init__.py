"""Labelled tasks, a pre-trained network and the loop put together: what a model learns from few labels."""

# What other rooms may import of this one's modules.
OFFERS = {
    "data": ["Source", "read_labelled", "truncation_notices"],
    "ensembling": ["MOST_REPEATED"],
    "finetune": ["chosen_recipe", "finetune"],
    "measure": ["evaluate_run", "evaluation_file", "predictions_file"],
    "results": ["results", "results_blocks"],
    "seeds": ["found_seeds", "read_result", "summarise"],
}
