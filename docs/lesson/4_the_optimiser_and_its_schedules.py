# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 4. The optimiser and its schedules
#
# *The paper's section 4.1, "Model specifications": Adam, its rates, and the decay of weights.*
#
# The gradient says in which direction a weight should move. The optimiser says how far. **Afterwards you will know**
#
# - what Adam keeps of past gradients, and why the first steps need a correction,
# - how weights decay apart from the gradient, where the released code puts its epsilon, and why `torch.optim.AdamW` is
#   another function,
# - the paper's two schedules, and a cliff in one of them.
#
# The numbers are the paper's; the "network" is a matrix and a bias of a few numbers, in float64.

# %%
import math
from dataclasses import replace

import matplotlib.pyplot as plt
import torch
from torch import nn

from gpt1.recipes.catalog import FINETUNE, PAPER
from gpt1.recipes.values import Schedule
from gpt1.training.optimizers import adam_numbers, adam_update, build_optimizer
from gpt1.training.schedules import factor

SETTINGS = PAPER.optimizer
print(SETTINGS)
assert (SETTINGS.lr, SETTINGS.beta1, SETTINGS.beta2) == (2.5e-4, 0.9, 0.999)
assert (SETTINGS.epsilon, SETTINGS.weight_decay, SETTINGS.clip) == (1e-8, 0.01, 1.0)


def same(mine, right):
    """Whether tensors agree to twelve digits behind the point."""
    return torch.allclose(mine, right, rtol=0, atol=1e-12)


# %% [markdown]
# ## Adam by hand
#
# Adam keeps two running averages for every weight: $m$ of its gradient, $v$ of the gradient's square. A weight moves
# by $m/\sqrt v$: the direction in which gradients agree, measured by how large they usually are. So all weights move
# by about the rate, whether their gradients are large or small.
#
# Both averages begin at 0 and are too small at first, after $t$ updates by $1-\beta^t$; the rate makes up for it. With
# the schedule's factor $s$ the released code does
#
# $$m \leftarrow 0.9\,m + 0.1\,g, \qquad v \leftarrow 0.999\,v + 0.001\,g^2$$
#
# $$r = \text{lr} \cdot \frac{\sqrt{1-0.999^t}}{1-0.9^t} \cdot s, \qquad p \leftarrow p - r \left(\frac{m}{\sqrt v +
# 10^{-8}} + 0.01\,p\right)$$
#
# The last term is the *decay*: weights shrink a little towards 0 with every update. It does not pass through $m$ and
# $v$, it is *decoupled* from them. It holds for what has more than one dimension: matrices and tables, not biases and
# gains.


# %%
def adam_by_hand(p, g, m, v, t, s, decays):
    """Return weights and both averages after update t, counted from 1."""
    m = 0.9 * m + 0.1 * g
    v = 0.999 * v + 0.001 * g**2
    r = 2.5e-4 * math.sqrt(1 - 0.999**t) / (1 - 0.9**t) * s
    direction = m / (v.sqrt() + 1e-8) + (0.01 * p if decays else 0)
    return p - r * direction, m, v


def network():
    """Return the same few random weights every time."""
    torch.manual_seed(0)
    return nn.Linear(4, 3, dtype=torch.float64)


gradients = [torch.randn(15, generator=torch.Generator().manual_seed(t), dtype=torch.float64) for t in range(1, 6)]


def split(flat):
    """Return the gradient of the matrix and of the bias."""
    return flat[:12].view(3, 4), flat[12:]


theirs = network()
optimizer = build_optimizer(SETTINGS, theirs.named_parameters())
print("which weights decay:", dict(optimizer.groups))

mine = {name: parameter.detach().clone() for name, parameter in network().named_parameters()}
moments = {name: (torch.zeros_like(p), torch.zeros_like(p)) for name, p in mine.items()}
yes, whole = torch.tensor(True), torch.tensor(1.0)
for t, flat in enumerate(gradients, 1):
    s = 0.2 * t
    for (name, parameter), g in zip(theirs.named_parameters(), split(flat), strict=True):
        parameter.grad.copy_(g)  # what a backward pass would leave there
        decays = mine[name].ndim > 1
        mine[name], *moments[name] = adam_by_hand(mine[name], g, *moments[name], t, s, decays)
    optimizer.step(t, s, whole, yes)
    for name, parameter in theirs.named_parameters():
        assert same(mine[name], parameter), (t, name)
print("five updates by hand and by the package give the same weights")

# %% [markdown]
# ## Not torch's AdamW
#
# `torch.optim.AdamW` has the same idea and other details: it adds epsilon to the root *after* its correction, and its
# decay is not multiplied by the bias corrections. In the first updates, where the corrections are large, that shows.

# %%
for settings, name in ((SETTINGS, "adam"), (replace(SETTINGS, kind="adamw"), "adamw")):
    ours, library = network(), network()
    own = build_optimizer(settings, ours.named_parameters())
    torchs = torch.optim.AdamW(library.parameters(), lr=settings.lr, weight_decay=settings.weight_decay)
    own_grads = split(gradients[0])
    for model in (ours, library):
        for parameter, g in zip(model.parameters(), own_grads, strict=True):
            parameter.grad = g.clone() if parameter.grad is None else parameter.grad.copy_(g)
    own.step(1, 1.0, whole, yes)
    torchs.step()
    difference = (ours.weight - library.weight).abs().max().item()
    print(f"kind {name:6} after one update differs from torch's AdamW by {difference:.1e}")
    assert (difference > 1e-8) == (name == "adam")

# %% [markdown]
# ## Clipping
#
# One odd batch can have a gradient a hundred times as long as others. The released code shortens it: where the *norm*
# of all gradients together is above 1, all of them are divided by it. The paper does not mention it.
#
# $$g \leftarrow g \cdot \min\left(1, \frac{1}{\lVert g\rVert}\right), \qquad
# \lVert g\rVert = \sqrt{\textstyle\sum g_i^2}$$

# %%
for parameter, g in zip(theirs.parameters(), split(gradients[0]), strict=True):
    parameter.grad.copy_(g)
norm = optimizer.gradient_norm()
scale = (SETTINGS.clip / norm).clamp(max=1)
print(f"norm {norm.item():.3f}, so gradients are multiplied by {scale.item():.3f}")
assert same(norm, gradients[0].square().sum().sqrt())
assert same((gradients[0] * scale).norm(), torch.ones((), dtype=torch.float64))

# %% [markdown]
# ## The schedules
#
# The rate is not the same all the time. While $m$ and $v$ know little, it rises from 0 (the *warm-up*, a share $w$ of
# all updates); then it falls, so that the weights settle. With $x = (t-1)/T$, the share of the updates that is done,
#
# $$\text{pre-training:}\quad s(x) = \begin{cases} x/w & x \le w \\ \tfrac12(1+\cos \pi x) & x > w\end{cases} \qquad
# \text{fine-tuning:}\quad s(x) = \begin{cases} (1-x)\,x/w & x \le w \\ 1-x & x > w\end{cases}$$
#
# The paper warms up for 2,000 updates in pre-training and for 0.2 % of them in fine-tuning.


# %%
def cosine_by_hand(x, w):
    return x / w if x <= w else 0.5 * (1 + math.cos(math.pi * x))


T = 100_000
for t in (1, 500, 2_000, 2_001, 2_002, 50_000, 100_000):
    x, w = (t - 1) / T, 2_000 / T
    assert factor(PAPER.schedule, t, T) == cosine_by_hand(x, w)
assert factor(PAPER.schedule, 1, T) == 0, "the first update of a warm-up moves nothing, but fills m and v"

# %% [markdown]
# ## A picture: both schedules
#
# Left a pre-training of 100,000 updates, right a fine-tuning of 1,000. Note the scales: fine-tuning has a quarter of
# the rate, so that it does not destroy what was learned, and hardly any warm-up.

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
for axes, recipe, updates, title in ((left, PAPER, T, "pre-training"), (right, FINETUNE, 1_000, "fine-tuning")):
    steps = range(1, updates + 1, max(1, updates // 2_000))
    rates = [1e5 * recipe.optimizer.lr * factor(recipe.schedule, t, updates) for t in steps]
    axes.plot(steps, rates)
    axes.set(title=title, xlabel="update", ylabel="learning rate, in $10^{-5}$", ylim=0)
    axes.grid(alpha=0.3)
left.set_xticks([0, 50_000, 100_000])
plt.show()

# %% [markdown]
# ## Exercises
#
# In each, replace the `...` and run the cell. The answer is in the cell after it, which also checks yours, if there is
# one.
#
# **Exercise 1.** No warm-up, no decay, the first update. A weight's gradient is 0.003. By how much does the weight
# move? And if it is 3,000? Put $m = 0.1 g$ and $v = 0.001 g^2$ into the formula before you calculate. (To $10^{-7}$.)

# %% tags=["exercise"]
my_move = ...

# %% tags=["answer"]
# By the rate, whatever the gradient: sqrt(0.001) / 0.1 times 0.1 g / (sqrt(0.001) |g|) is 1. (Of a small gradient a
# trace less: the epsilon.)
move = 2.5e-4
for g in (0.003, 3_000.0):
    p, m, v = (torch.zeros(1, dtype=torch.float64) for _ in range(3))
    numbers = adam_numbers(SETTINGS, 1, 1.0, decays=False)
    adam_update(p, torch.full((1,), g, dtype=torch.float64), m, v, numbers, scale=whole, ok=yes)
    print(f"gradient {g:8}: the weight moves by {-p.item():.8f}")
    assert abs(-p.item() - move) < 1e-7
assert my_move is ... or abs(my_move - move) < 1e-7, "not yet: what is left of g in m / sqrt(v)?"

# %% [markdown]
# **Exercise 2.** Write the schedule of fine-tuning. Mind the case of no warm-up at all, w = 0.


# %% tags=["exercise"]
def my_linear(x, w):
    return ...


# %% tags=["answer"]
def linear(x, w):
    return (x / w if w > 0 and x <= w else 1) * (1 - x)


right = [factor(FINETUNE.schedule, t, 1_000) for t in range(1, 1_001)]
assert right == [linear((t - 1) / 1_000, 0.002) for t in range(1, 1_001)]
none = Schedule(kind="linear", warmup_steps=0)
assert [factor(none, t, 10) for t in range(1, 11)] == [linear((t - 1) / 10, 0) for t in range(1, 11)]
mine = [my_linear((t - 1) / 1_000, 0.002) for t in range(1, 1_001)]
assert mine[0] is ... or mine == right, "not yet: two factors, one rises, one falls"

# %% [markdown]
# **Exercise 3.** The cosine begins at x = 0, not at the end of the warm-up. With 100,000 updates nobody sees it. What
# is the factor just *after* the warm-up of 2,000 updates if there are 4,250 in all? Just before it is 1. (To 0.01.)

# %% tags=["exercise"]
my_factor = ...

# %% tags=["answer"]
w = 2_000 / 4_250
after = 0.5 * (1 + math.cos(math.pi * w))
cliff = Schedule(kind="cosine", warmup_steps=2_000, warmup_share=1)  # 2,000 updates, whatever share that is
before_and_after = [factor(cliff, t, 4_250) for t in (2_001, 2_002)]
print("a cliff:", [round(s, 2) for s in before_and_after])
assert before_and_after[0] == 1
assert abs(before_and_after[1] - after) < 0.01
assert abs(after - 0.55) < 0.01
assert PAPER.schedule.warmup(4_250) == 0.02, "so the package warms up for 2 % of the updates at most"
assert my_factor is ... or abs(my_factor - after) < 0.01, "not yet: put x = 2000 / 4250 into the cosine"
