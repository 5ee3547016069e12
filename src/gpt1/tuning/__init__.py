"""Settings of fine-tuning that suit a table, found by trying them on rows that were not learned."""

# What other rooms may import of this one's modules.
OFFERS = {"shown": ["search_as_json", "search_blocks"], "tune": ["tune"]}
