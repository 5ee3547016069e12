"""The one training loop and its parts: optimisers, schedules, several processes."""

# What other rooms may import of this one's modules.
OFFERS = {
    "batches": ["Batch", "Batches", "MicroBatchArrays", "NO_TARGET", "share", "share_of"],
    "config": ["Judgement", "TrainerConfig"],
    "distributed": ["World", "join_world"],
    "session": [
        "Conditions",
        "LENGTHS",
        "Looked",
        "Notify",
        "Session",
        "as_recipe",
        "begun_run",
        "notifier",
        "require_no_run",
        "resumed",
        "speed_up",
        "why_no_kernels",
    ],
    "trainer": ["Diverged", "Trainer"],
}
