"""CUDA graphs: the kernels of a pass are recorded once for each shape of its input, then played back.

A pass over a few hundred tokens starts a thousand kernels, and the host takes longer to start them than the device to
run them. A recording (a CUDA graph) starts them all at once. It reads its input where it lay when it was recorded, so
every call copies its tensors there; the random numbers of the library's dropout follow the generator's present seed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

import torch
from torch import Tensor

from gpt1.base.garbage import collector_paused
from gpt1.base.torch_internals import copy_all

LARGEST = 2**14  # elements of a tensor of the input; above, the device is the slower one anyway

Inputs = dict[str, Tensor]
Pass = Callable[..., Tensor]  # (inputs, **facts) -> what it found; what else it changes lies where it always lies


class Recording:
    """One pass on inputs of one shape."""

    def __init__(self, function: Pass, inputs: Inputs, facts: Mapping[str, Hashable], pool: Any) -> None:
        self._inputs = {name: tensor.clone() for name, tensor in inputs.items()}
        self._graph = torch.cuda.CUDAGraph()
        # Other threads go on meanwhile, such as the one that reads batches: what they do is none of the recording.
        # An older recording may be in the garbage, and its end would spoil this one.
        with collector_paused(), torch.cuda.graph(self._graph, pool=pool, capture_error_mode="thread_local"):
            self._found = function(self._inputs, **facts)

    def play(self, inputs: Inputs) -> Tensor:
        """Do the pass on these inputs; what it returns is overwritten by the next one."""
        names = list(inputs)
        copy_all([self._inputs[name] for name in names], [inputs[name] for name in names])
        self._graph.replay()
        return self._found


class Recorder:
    """Does as a pass does: the first time for a shape by calling it, afterwards by a recording."""

    def __init__(self, function: Pass) -> None:
        self._function = function
        self._met: set[Hashable] = set()
        self._recordings: dict[Hashable, Recording] = {}
        self._pool = torch.cuda.graph_pool_handle()  # one for all: no two passes run at a time

    def __call__(self, inputs: Inputs, **facts: Hashable) -> Tensor:
        """Return what the pass finds on these inputs."""
        key = tuple((name, tensor.shape) for name, tensor in inputs.items()), tuple(sorted(facts.items()))
        if key in self._recordings:
            return self._recordings[key].play(inputs)
        if key not in self._met or max(tensor.numel() for tensor in inputs.values()) > LARGEST:
            self._met.add(key)
            return self._function(inputs, **facts)
        self._recordings[key] = Recording(self._function, inputs, facts, self._pool)
        return self._recordings[key].play(inputs)
