"""A trained network made smaller: which layers and units it can do without, by what is measured on held-out data."""

# What other rooms may import of this one's modules.
OFFERS = {"prune": ["prune"]}
