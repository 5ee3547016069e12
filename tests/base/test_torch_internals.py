"""Names that torch does not promise are still there, and give what is asked of them."""

from __future__ import annotations

import ast
import importlib
from functools import reduce
from pathlib import Path

import pytest
import torch

from gpt1.base import torch_internals
from gpt1.base.torch_internals import EXPORT_LOGGER, copy_all, int8_product, reorder_weight, reordered_linear

FILE = Path(torch_internals.__file__)


def private_names() -> list[str]:
    chains = {ast.unparse(node) for node in ast.walk(ast.parse(FILE.read_text())) if isinstance(node, ast.Attribute)}
    return sorted(chain for chain in chains if chain.startswith("torch.") and chain.split(".")[-1].startswith("_"))


def needs_onednn(name: str) -> bool:
    return ".mkldnn." in name and not torch.backends.mkldnn.is_available()


@pytest.mark.parametrize("name", private_names())
def test_torch_still_has_the_name(name: str) -> None:
    if needs_onednn(name):
        pytest.skip("this torch is built without oneDNN")
    try:
        reduce(getattr, name.split(".")[1:], torch)
    except AttributeError:
        pytest.fail(f"torch {torch.__version__} no longer has {name}: see {FILE.name}")


def test_all_names_are_looked_for() -> None:
    assert len(private_names()) == 11


def test_torchs_exporter_still_logs_under_its_name() -> None:
    module = importlib.import_module(EXPORT_LOGGER)
    assert module.logger.name == EXPORT_LOGGER, f"see {FILE.name}"


def test_products_of_bytes_are_whole_numbers() -> None:
    x, y = (torch.randint(-127, 128, shape, dtype=torch.int8) for shape in ((17, 8), (8, 16)))
    assert torch.equal(int8_product(x, y), (x.int() @ y.int()))


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this torch is built without oneDNN")
def test_a_reordered_matrix_gives_the_same_product() -> None:
    x, weight, bias = torch.randn(5, 8), torch.randn(16, 8), torch.randn(16)
    found = reordered_linear(x, reorder_weight(weight, 64), bias)
    assert torch.allclose(found, x @ weight.T + bias, atol=1e-5)


def test_tensors_are_copied_all_at_once() -> None:
    targets = [torch.zeros(2), torch.zeros(3)]
    copy_all(targets, [torch.ones(2), torch.full((3,), 2.0)])
    assert [target.tolist() for target in targets] == [[1, 1], [2, 2, 2]]
