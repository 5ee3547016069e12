"""What a run is, as values."""

# What other rooms may import of this one's modules.
OFFERS = {
    "catalog": ["AUTO", "FINETUNE", "FOR_TEXT", "PAPER", "RECIPES", "find_recipe", "recipe", "used_settings"],
    "changes": [
        "Setting",
        "change",
        "differences",
        "recipe_as_json",
        "recipe_from_json",
        "settings",
        "todays_names",
        "todays_section",
    ],
    "derived": ["in_words", "recipe_for", "recipe_for_text", "require_for_text", "require_settled", "settled"],
    "values": [
        "AUGMENTED",
        "FOLDS",
        "FSDP",
        "Finetuning",
        "LSTM",
        "Logging",
        "Optimizer",
        "Recipe",
        "Schedule",
        "Shape",
        "TRANSFORMER",
    ],
}
