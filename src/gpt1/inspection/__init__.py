"""Looking before training: is this text fit to train on, and what would a recipe make of it on this machine."""

# What other rooms may import of this one's modules.
OFFERS = {
    "doctor": ["examine"],
    "page": ["draw_page"],
    "plan": ["RECIPE", "Speed", "plan", "training_speed"],
    "plan_page": ["describe"],
    "table": ["examine_table"],
}
