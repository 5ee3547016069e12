"""Pre-trained runs that ship inside the package, found by their names."""

# What other rooms may import of this one's modules.
OFFERS = {"catalog": ["default_base", "find_base", "lasting_name", "named_again", "run_or_base"]}
