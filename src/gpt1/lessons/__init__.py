"""Tasks made from unlabelled text (self-supervision): what a small network learns before it meets a few real labels."""

# What other rooms may import of this one's modules.
OFFERS = {"making": ["make_lessons"]}
