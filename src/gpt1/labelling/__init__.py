"""Labels after the first week: which are likely wrong, and which rows to label next."""

# What other rooms may import of this one's modules.
OFFERS = {
    "choosing": ["next_labels"],
    "shown": ["judge_of", "next_blocks", "suspect_blocks"],
    "suspects": ["suspect_labels"],
}
