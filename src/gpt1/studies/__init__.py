"""The paper's experiments: many runs and measurements, kept cell by cell, as tables and curves."""

# What other rooms may import of this one's modules.
OFFERS = {
    "ablations": ["study_ablations"],
    "augmentation": ["study_augmentation"],
    "cells": ["Cell", "CellResult", "Watcher", "has_cells", "seconds_left"],
    "comparison": ["Sheet", "paired_difference", "read_sheet", "resampled_interval"],
    "domain": ["study_domain"],
    "finetuned": ["FinetuningSettings"],
    "folder": ["STUDY_FILE", "is_study", "read_study"],
    "labels": ["study_labels"],
    "objectives": ["ToRead", "study_objectives"],
    "paper": ["SCALES", "normalised"],
    "reproduce": ["Scope", "reproduce"],
    "transfer": ["study_transfer"],
    "zeroshot": ["study_zeroshot"],
}
