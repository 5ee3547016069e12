"""The one training loop and its parts: optimisers, schedules, several processes."""

# What other rooms may import of this one's modules.
OFFERS = {
    "batches": ["Batch", "MicroBatchArrays", "NO_TARGET", "share_of"],
    "distributed": ["World", "join_world"],
    "session": [
        "Looked",
        "as_recipe",
        "begun_run",
        "checkpoint_to_resume",
        "conduct",
        "hardware",
        "notifier",
        "require_as_found",
        "resumed",
        "speed_up",
    ],
    "trainer": ["Evaluation", "Trainer"],
}
