"""tests/ mirrors src/: who reads a file knows where its tests are."""

from __future__ import annotations

from pathlib import Path

import gpt1

SOURCE = Path(gpt1.__file__).parent
TESTS = Path(__file__).parent

# Files that are tested through others, and where.
TESTED_IN = {
    "base/parts.py": "studies/test_folder.py",
    "base/stages.py": "demo/test_tour.py",
    "cli/lines.py": "cli/test_pretrain.py",
    "cli/options.py": "cli/test_app.py",
    "cli/serve.py": "serve/test_server.py",
    "cli/tokenizer.py": "cli/test_app.py",
    "corpus/assembly.py": "corpus/test_prepare.py",
    "corpus/batches.py": "corpus/test_prepare.py",
    "corpus/encoding.py": "corpus/test_lots.py",
    "corpus/manifest.py": "corpus/test_prepare.py",
    "corpus/pages.py": "corpus/test_wikipedia.py",
    "demo/books_page.py": "demo/test_books_tour.py",
    "demo/learning.py": "demo/test_tour.py",
    "demo/page.py": "demo/test_tour.py",
    "demo/recipe.py": "demo/test_tour.py",
    "demo/stories.py": "demo/test_world.py",
    "demo/writing.py": "demo/test_tasks.py",
    "demo/zeroshot.py": "demo/test_tour.py",
    "documents/blocks.py": "documents/test_terminal.py",
    "documents/drift.py": "finetuning/test_drifting.py",
    "documents/figures.py": "report/test_page.py",
    "documents/html.py": "report/test_page.py",
    "estimators/folders.py": "estimators/test_estimators.py",
    "exchange/names.py": "exchange/test_transformers.py",
    "exchange/to_transformers.py": "exchange/test_transformers.py",
    "finetuning/objective.py": "finetuning/test_parity.py",
    "inference/classification.py": "inference/test_predicting.py",
    "inference/glue.py": "cli/test_submit.py",
    "inference/portions.py": "inference/test_scoring.py",
    "inspection/plan_page.py": "inspection/test_plan.py",
    "inspection/survey.py": "inspection/test_doctor.py",
    "labelling/cross_validating.py": "labelling/test_suspects.py",
    "labelling/shown.py": "labelling/test_suspects.py",
    "model/kernels/adam.py": "training/test_optimizers.py",
    "model/kernels/dropout.py": "model/test_dropout.py",
    "model/kernels/masks.py": "model/kernels/test_block.py",
    "model/kernels/tables.py": "model/kernels/test_learning.py",
    "model/transformer.py": "model/test_network.py",
    "records/calibration.py": "finetuning/test_calibrating.py",
    "records/ensemble.py": "finetuning/test_ensembling.py",
    "records/evaluation.py": "finetuning/test_measure.py",
    "records/run.py": "runs/test_folder.py",
    "records/seeds.py": "finetuning/test_seeds.py",
    "records/study.py": "studies/test_folder.py",
    "records/thresholds.py": "finetuning/test_thresholding.py",
    "records/tuning.py": "tuning/test_tune.py",
    "report/runs.py": "report/test_page.py",
    "serve/answers.py": "serve/test_app.py",
    "serve/completions.py": "serve/test_engine.py",
    "serve/guards.py": "serve/test_app.py",
    "serve/limits.py": "serve/test_server.py",
    "serve/listening.py": "serve/test_server.py",
    "serve/monitoring.py": "serve/test_server.py",
    "serve/schemas.py": "serve/test_app.py",
    "serve/settings.py": "serve/test_server.py",
    "starting/shown.py": "starting/test_start.py",
    "studies/material.py": "studies/test_labels.py",
    "studies/subjects.py": "studies/test_zeroshot.py",
    "tasks/columns.py": "tasks/test_readers.py",
    "tasks/examples.py": "tasks/test_readers.py",
    "tasks/formats.py": "tasks/test_official.py",
    "text/cleaning.py": "text/test_words.py",
    "text/specials.py": "text/test_tokenizer.py",
    "text/splitting.py": "text/test_words.py",
    "text/unknowns.py": "pretraining/test_measure.py",
    "training/config.py": "training/test_trainer.py",
    "training/distributed.py": "pretraining/test_nodes.py",
    "tuning/request.py": "tuning/test_tune.py",
    "tuning/shown.py": "tuning/test_tune.py",
}
# Files that nothing is built on: they are called by hand.
BY_HAND = {"demo/tuning.py"}
# Tests of what several files do together.
OF_SEVERAL = {
    "serve/test_path.py",
    "benchmarks/test_checkpoints.py",  # benchmarks/
    "benchmarks/test_failures.py",  # benchmarks/
    "benchmarks/test_far_evidence.py",
    "benchmarks/test_laptop.py",
    "benchmarks/test_ngrams.py",
    "benchmarks/test_pretraining.py",
    "benchmarks/test_results.py",
    "benchmarks/test_windows.py",
    "cli/test_defaults.py",  # all verbs, against the owners of their defaults
    "cli/test_evaluate_answers.py",  # gpt1 evaluate, of fine-tuned runs
    "estimators/test_checks.py",  # scikit-learn's own
    "exchange/test_transformers.py",  # there and back
    "faults/test_faults.py",  # kills and turned bits, everywhere
    "finetuning/test_labelled_words.py",  # all that learns, keeps and answers, of labels of words
    "finetuning/test_bidirectional.py",  # all that learns, keeps and answers
    "finetuning/test_long_texts.py",  # all that learns, keeps and answers
    "finetuning/test_parity.py",  # against a plain implementation
    "finetuning/test_reference.py",
    "inference/test_belonging.py",  # files of a run that are another's
    "model/test_bidirectional.py",  # attention, in all that is built on it
    "pretraining/test_nodes.py",  # processes that come and go
    "serve/test_hostility.py",  # hostile clients
    "training/test_golden.py",  # losses that must not move
    "training/test_parity.py",  # against a plain implementation
}


def test_every_file_has_its_tests_in_the_same_place_or_a_named_one() -> None:
    files = {str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py") if not path.stem.startswith("__")}
    without = {name for name in files if not (TESTS / Path(name).parent / f"test_{Path(name).name}").exists()}
    assert without == TESTED_IN.keys() | BY_HAND
    assert {name for name in TESTED_IN.values() if not (TESTS / name).exists()} == set()


def test_every_test_of_a_room_is_of_one_of_its_files_or_of_several() -> None:
    tests = {path.relative_to(TESTS) for path in TESTS.rglob("test_*.py") if path.parent != TESTS}
    other = {str(path) for path in tests if not (SOURCE / path.parent / path.name.removeprefix("test_")).exists()}
    assert other == OF_SEVERAL
