"""Pre-trained runs that ship inside the package, found by their names."""

# What other rooms may import of this one's modules.
OFFERS = {
    "catalog": [
        "BASE_FILE",
        "Base",
        "NO_BASE",
        "base_in",
        "base_names",
        "bases",
        "default_base",
        "find_base",
        "first_base",
        "is_packaged",
        "lasting_name",
        "named_again",
        "run_or_base",
    ]
}
