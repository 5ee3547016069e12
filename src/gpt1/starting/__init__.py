"""From a table of labels to a verdict, in one call."""

# What other rooms may import of this one's modules.
OFFERS = {"shown": ["start_blocks"], "start": ["start"]}
