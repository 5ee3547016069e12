"""Labelled tasks, a pre-trained network and the loop put together: what a model learns from few labels."""

# What other rooms may import of this one's modules.
OFFERS = {
    "augmenting": ["check_augmentation", "unmixable"],
    "counting": ["CountedWords", "MOST_REPEATED", "deal_evenly", "words_of_others"],
    "data": ["Source", "check_training", "read_labelled", "read_source", "truncation_notices"],
    "distill": ["distill_task"],
    "drifting": [
        "Digests",
        "ENCODING",
        "FEWEST",
        "KnownRows",
        "figures_of",
        "find_drift",
        "known_rows",
        "read_unlabelled",
        "too_few",
        "unordered",
        "were_learned",
    ],
    "ensembling": ["chosen", "keep", "times_as_long", "without_part"],
    "finetune": ["FOR_A_PART", "chosen_recipe", "counted_words", "finetune", "is_cross_validated"],
    "forecasting": ["in_fold", "seconds_in_all"],
    "measure": [
        "TableReading",
        "evaluate_run",
        "evaluation_file",
        "predictions_file",
        "read_again",
        "read_beside_train",
    ],
    "results": ["decisions", "evaluations", "results", "results_blocks", "run_worth"],
    "seeds": ["found_seeds", "is_done", "read_result", "summarise", "write_result"],
    "target": ["apart_in_words", "target_in_words"],
    "thresholding": ["choose_factors", "choose_thresholds"],
    "update_time": ["encode_table", "seconds_an_update"],
}
