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
# # 3. The loss of a language model, and its gradient
#
# *The paper's section 3.1, equation 1.*
#
# The network gives every token a score at every place. The loss says in one number how good these scores are, the
# gradient in which direction each weight should move so that they become better. **Afterwards you will know**
#
# - what is summed up in $L_1$, what *nats* and *perplexity* are, and what 18.4 means,
# - the gradient of the loss, which is surprisingly simple: what was believed, less what was true,
# - why the token table learns at both ends of the network,
# - how the package computes all that without ever holding all scores.
#
# The paper's table has 40,478 rows of 768; ours has 30 rows of 16, in float64.

# %%
import math

import matplotlib.pyplot as plt
import torch

from gpt1.model import build_model, linear_cross_entropy, token_losses
from gpt1.model.loss import CPU_LOGITS
from gpt1.recipes.values import Shape

VOCABULARY = 30
SHAPE = Shape(layers=2, width=16, heads=2, feed_forward=64, context=16, dropout=0.0, init_std=0.3)
model = build_model(SHAPE, VOCABULARY, compute=torch.float64, seed=1).double()
generator = torch.Generator().manual_seed(0)
text = torch.randint(0, VOCABULARY, (13,), generator=generator)


def same(mine, right):
    """Whether a tensor is as it should be, to twelve digits behind the point."""
    if not isinstance(mine, torch.Tensor) or mine.shape != right.shape:
        return False
    return torch.allclose(mine.double(), right.double(), rtol=0, atol=1e-12)


# %% [markdown]
# ## What is predicted
#
# At each place the *target* is the token that comes next. So a text of 13 tokens makes 12 inputs and 12 targets,
# shifted by one; the first token is never predicted. The loss is the negative of the paper's $L_1$, so that less is
# better:
#
# $$-L_1(U) = -\sum_i \log P(u_i \mid u_{i-k}, \dots, u_{i-1})$$
#
# With $x$ for the scores at a place and $y$ for its target, one term is
#
# $$-\log P(y) = -\log \frac{e^{x_y}}{\sum_v e^{x_v}} = \log \sum_v e^{x_v} - x_y$$

# %%
inputs, targets = text[:-1], text[1:]
hidden, output = model(inputs.unsqueeze(0))  # one sequence: a batch of 1
hidden_NC, output_VC = hidden[0].detach(), output.detach()
N = len(targets)

scores_NV = hidden_NC @ output_VC.T
losses_N = scores_NV.exp().sum(dim=1).log() - scores_NV[torch.arange(N), targets]
print("the loss at each place:", [round(loss, 2) for loss in losses_N.tolist()])
assert same(losses_N, token_losses(hidden_NC, output_VC, targets, VOCABULARY))

# %% [markdown]
# The natural logarithm measures in *nats*. The mean over all places is what is told while a network learns, and $e$ to
# the power of it is the *perplexity*: as unsure as if it had to choose among so many tokens that are equally likely. A
# network that knows nothing gives each of the $V$ tokens $1/V$, and has $\log V$ nats, perplexity $V$. The paper's has
# 18.4 of 40,478 on text that it had not read.

# %%
mean = losses_N.mean().item()
print(f"mean loss {mean:.3f} nats, perplexity {math.exp(mean):.1f}; knowing nothing: {math.log(VOCABULARY):.3f} nats")
assert same(
    token_losses(hidden_NC * 0, output_VC, targets, VOCABULARY),
    torch.full((N,), math.log(VOCABULARY), dtype=torch.float64),
)

# %% [markdown]
# ## The gradient
#
# How does the loss change when a score changes? With $p = \operatorname{softmax}(x)$,
#
# $$\frac{\partial}{\partial x_v} \left(\log \sum_{v'} e^{x_{v'}} - x_y\right)
# = \frac{e^{x_v}}{\sum_{v'} e^{x_{v'}}} - [v = y] = p_v - [v = y]$$
#
# where $[v = y]$ is 1 at the target and 0 elsewhere. What was believed, less what was true. Learning goes against the
# gradient, so the target's score rises by as much as was missing to 1, and each other score falls by what it was
# wrongly given.
#
# Scores are products of vectors $h$ and rows of the table $W_e$; by the chain rule their gradients are, with $G = p -
# [v = y]$, one row a place:
#
# $$\frac{\partial L}{\partial h} = G\, W_e, \qquad \frac{\partial L}{\partial W_e} = G^\top h$$
#
# In the package every place has a *weight* in the sum; for a mean it is $1/N$.

# %%
probabilities_NV = scores_NV.softmax(dim=1)
truth_NV = torch.zeros(N, VOCABULARY, dtype=torch.float64)
truth_NV[torch.arange(N), targets] = 1
G_NV = (probabilities_NV - truth_NV) / N
by_hand_NC, by_hand_VC = G_NV @ output_VC, G_NV.T @ hidden_NC

leaf_NC, leaf_VC = hidden_NC.clone().requires_grad_(), output_VC.clone().requires_grad_()
weights_N = torch.full((N,), 1 / N, dtype=torch.float64)
loss = linear_cross_entropy(leaf_NC, leaf_VC, targets, weights_N, VOCABULARY)
loss.backward()
print(f"loss {loss.item():.6f}; largest difference {(leaf_VC.grad - by_hand_VC).abs().max().item():.1e}")
assert abs(loss.item() - mean) < 1e-12
assert same(leaf_NC.grad, by_hand_NC)
assert same(leaf_VC.grad, by_hand_VC)

# %% [markdown]
# Do not believe formulas: *measure* a gradient. Move one number a little to either side and see what the loss does.


# %%
def loss_with(place, column, shift):
    moved_NC = hidden_NC.clone()
    moved_NC[place, column] += shift
    return token_losses(moved_NC, output_VC, targets, VOCABULARY).mean().item()


little = 1e-5
for place, column in ((0, 0), (5, 3), (11, 15)):
    measured = (loss_with(place, column, little) - loss_with(place, column, -little)) / (2 * little)
    print(
        f"place {place:2}, column {column:2}: measured {measured:+.8f}, by the formula {by_hand_NC[place, column]:+.8f}"
    )
    assert abs(measured - by_hand_NC[place, column].item()) < 1e-8

# %% [markdown]
# ## A picture: what was believed, less what was true
#
# One place: the probabilities, and the gradient of its scores. They are alike but for the target, whose bar hangs down
# by all that was missing.

# %%
place = 2
figure, (top, bottom) = plt.subplots(2, 1, figsize=(7, 4.2), sharex=True, layout="constrained")
tokens = range(VOCABULARY)
at_target = ["tab:orange" if token == targets[place] else "tab:blue" for token in tokens]
top.bar(tokens, probabilities_NV[place].numpy(), color=at_target)
top.set(ylabel="probability", title=f"place {place}: its target, token {targets[place].item()}, is orange")
bottom.bar(tokens, (N * G_NV[place]).numpy(), color=at_target)
bottom.axhline(0, color="black", linewidth=0.8)
bottom.set(ylabel="gradient of the score", xlabel="token")
plt.show()

# %% [markdown]
# ## The table learns at both ends
#
# The token table $W_e$ stands at the entrance, where tokens are looked up, and at the exit, where they are scored (its
# weights are *tied*). So its gradient is a sum of two: the one above, for every row, and one that came back through
# all blocks, for the rows of those tokens that were read.

# %%
model.zero_grad()
hidden, output = model(inputs.unsqueeze(0))
linear_cross_entropy(hidden[0], output, targets, weights_N, VOCABULARY).backward()
at_entrance_VC = model.tokens.grad - by_hand_VC
was_read = torch.isin(torch.arange(VOCABULARY), inputs)
moved = at_entrance_VC.abs().sum(dim=1) > 1e-12
print(f"{was_read.sum()} of {VOCABULARY} tokens were read; rows with a gradient from the entrance: {moved.sum()}")
assert torch.equal(moved, was_read)

# %% [markdown]
# ## Without holding all scores
#
# An update of the paper reads 64 sequences of 512 tokens: 32,768 places with 40,478 scores each. That would be
# gigabytes (exercise 3) for numbers that are needed once. So the package walks over the places in slices: a slice's
# scores are made, turned into their own gradient $p - [v = y]$ in place, multiplied into the two results, and
# forgotten. The sums are the same.

# %%
slices = [slice(start, start + 4) for start in range(0, N, 4)]
summed_VC = torch.zeros_like(output_VC)
for rows in slices:
    part_NV = (hidden_NC[rows] @ output_VC.T).softmax(dim=1)  # the only scores that exist at this moment
    part_NV[torch.arange(len(part_NV)), targets[rows]] -= 1
    summed_VC += part_NV.T @ hidden_NC[rows] / N
assert same(summed_VC, by_hand_VC)
print(f"{len(slices)} slices give the same gradient")

# %% [markdown]
# ## Exercises
#
# In each, replace the `...` and run the cell. The answer is in the cell after it, which also checks yours, if there is
# one.
#
# **Exercise 1.** The paper's perplexity is 18.4. How many *bits* a token is that: how many questions to be answered by
# yes or no? (To 0.01.)

# %% tags=["exercise"]
my_bits = ...

# %% tags=["answer"]
# Perplexity 2 is one bit: a choice between two.
bits = math.log2(18.4)
assert abs(bits - 4.20) < 0.01
assert abs(2**bits - 18.4) < 1e-9
assert abs(bits - math.log(18.4) / math.log(2)) < 1e-12, "nats divided by log 2 are bits"
assert my_bits is ... or abs(my_bits - bits) < 0.01, "not yet: 2 to the power of what is 18.4?"

# %% [markdown]
# **Exercise 2.** Sequences of one batch have different lengths; the shorter ones are filled up, and the filling must
# not be learned. The package marks such places by a target below 0. Write the *mean* loss of the places that count.

# %%
filled = targets.clone()
filled[-3:] = -1


# %% tags=["exercise"]
def my_mean_loss(scores_NV, targets_N):
    return ...


# %% tags=["answer"]
def mean_loss(scores_NV, targets_N):
    counted = targets_N >= 0
    x_NV, y_N = scores_NV[counted], targets_N[counted]
    return (x_NV.logsumexp(dim=1) - x_NV[torch.arange(len(y_N)), y_N]).mean()


theirs = token_losses(hidden_NC, output_VC, filled, VOCABULARY)
assert same(theirs[-3:], torch.zeros(3)), "the package leaves them out"
assert same(mean_loss(scores_NV, filled), theirs.sum() / 9)
mine = my_mean_loss(scores_NV, filled)
assert mine is ... or same(mine, mean_loss(scores_NV, filled)), "not yet: divide by the places that count"

# %% [markdown]
# **Exercise 3.** How many gigabytes ($10^9$ bytes) would all scores of one of the paper's updates take, at 4 bytes
# each? (To 0.1.) And what would you guess is the memory that the package uses for them on a CPU?

# %% tags=["exercise"]
my_gigabytes = ...

# %% tags=["answer"]
gigabytes = 64 * 512 * 40_478 * 4 / 1e9
assert abs(gigabytes - 5.3) < 0.1
at_once = CPU_LOGITS * 4 / 1e9  # what the package holds on a CPU
assert at_once < gigabytes / 100
print(f"all scores: {gigabytes:.1f} GB; at once, on a CPU: {at_once:.3f} GB")
assert my_gigabytes is ... or abs(my_gigabytes - gigabytes) < 0.1, "not yet: places x tokens x bytes"
