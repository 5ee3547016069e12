"""Labelled tasks, a pre-trained network and the loop put together: what a model learns from few labels."""

# What other rooms may import of this one's modules.
OFFERS = {
    "data": ["Source", "read_labelled", "read_source", "truncation_notices"],
    "ensembling": [
        "MOST_REPEATED",
        "chosen",
        "deal_evenly",
        "keep",
        "times_as_long",
        "without_part",
        "words_of_others",
    ],
    "finetune": ["FOR_A_PART", "chosen_recipe", "finetune", "is_cross_validated", "only_steps"],
    "measure": ["TableReading", "evaluate_run", "evaluation_file", "predictions_file", "read_beside_train"],
    "results": ["decisions", "evaluations", "results", "results_blocks"],
    "seeds": ["found_seeds", "is_done", "read_result", "summarise"],
}
