"""A trained run in use."""

# What other rooms may import of this one's modules.
OFFERS = {
    "answering": [
        "Predictions",
        "answer",
        "answer_by_portion",
        "answer_split",
        "left_behind",
        "reading_notices",
        "task_of",
    ],
    "attention_maps": ["Looks", "as_rows", "check_layer", "looks_everywhere"],
    "blimp": ["Blimp", "PUBLISHED", "blimp", "read_pairs"],
    "classification": ["head_shapes", "probabilities_by_portion"],
    "embedding": ["MEAN", "text_ids"],
    "generation": [
        "BatchGenerator",
        "GeneratedSequence",
        "LENGTH",
        "RuinedScores",
        "STOP",
        "continue_ids",
        "prompt_tokens",
    ],
    "glue": ["submit"],
    "predicting": ["predict_file"],
    "prompts": ["Reading", "Rule", "examples_to_show", "find_rule", "make_prompts"],
    "rows": ["check_target", "json_line", "write_rows"],
    "run": ["BEST", "BODY", "DTYPES", "LAST", "Run", "find_checkpoint", "load_base", "load_run", "load_weights"],
    "sampling": ["SEEDS", "SamplingParams", "Weighed"],
    "scoring": ["ScoredText"],
    "zeroshot": ["Questions", "ZeroShot", "answer", "make_questions", "zeroshot"],
}
