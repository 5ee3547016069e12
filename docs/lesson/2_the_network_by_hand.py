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
# # 2. The network, by hand
#
# *The paper's section 3.1, equation 2, with the sizes of section 4.1.*
#
# The network reads ids and says at every place which token may come next. It is a stack of *blocks*; a block lets
# every place gather from the places before it (*attention*), then thinks about each place by itself (*feed-forward*).
# **Afterwards you will know**
#
# - what queries, keys and values are, and why a mask makes a language model of them,
# - what a layer norm and the GELU compute,
# - how a block is put together, and how ids become scores of the next token: you will have computed them without the
#   package,
# - where GPT-1's 116,534,784 parameters are.
#
# The paper has 12 blocks of width 768 with 12 heads; this network has 2 blocks of width 16 with 2 heads, and random
# weights. The formulas are the same. We compute in float64 (16 digits), so that what is equal in theory is equal to
# twelve digits here.

# %%
import math

import matplotlib.pyplot as plt
import torch

from gpt1.model import attention_weights, build_model
from gpt1.model.layers import gelu
from gpt1.recipes.values import Shape

SHAPE = Shape(layers=2, width=16, heads=2, feed_forward=64, context=8, dropout=0.0)
VOCABULARY = 30


def random_model(shape):
    """Return the package's network in float64, every weight of it random: gains and biases too."""
    model = build_model(shape, VOCABULARY, compute=torch.float64).double().requires_grad_(False)
    generator = torch.Generator().manual_seed(0)
    for parameter in model.parameters():
        parameter.copy_(0.5 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return model


def same(mine, right):
    """Whether a tensor is as it should be, to twelve digits behind the point."""
    if not isinstance(mine, torch.Tensor) or mine.shape != right.shape:
        return False
    return torch.allclose(mine.double(), right.double(), rtol=0, atol=1e-12)


model = random_model(SHAPE)
for name, parameter in model.named_parameters():
    if not name.startswith("blocks.1"):
        print(f"{name:32} {list(parameter.shape)}")

# %% [markdown]
# ## Ids to vectors
#
# Two tables are looked up. $W_e$ has a row for each token, $W_p$ a row for each place. Their sum is what goes in:
#
# $$h_0 = W_e[u] + W_p$$
#
# In the names of variables the capitals are the sizes: T places, C the width, H heads, D the width of a head, V the
# vocabulary. So `x_TC[3]` is the vector at place 3.

# %%
ids = torch.tensor([7, 3, 11, 3, 25, 0])
T, H, D = len(ids), SHAPE.heads, SHAPE.width // SHAPE.heads

h0_TC = model.tokens[ids] + model.positions[:T]
print(
    "the token 3 stands at places 1 and 3, with vectors that differ by their positions:", not same(h0_TC[1], h0_TC[3])
)

# %% [markdown]
# ## Attention
#
# Each place asks a question (its *query* $q$), and each place offers an answer to one (its *key* $k$) and something to
# take along (its *value* $v$). All three are linear in the vector there. How well place $j$ answers place $i$ is the
# product $q_i \cdot k_j$; a softmax turns these scores into weights that are positive and sum to 1:
#
# $$a_{ij} = \frac{\exp(q_i \cdot k_j / \sqrt{D})}{\sum_{j' \le i} \exp(q_i \cdot k_{j'} / \sqrt{D})} \quad (j \le i),
# \qquad y_i = \sum_{j \le i} a_{ij} v_j$$
#
# The sums end at $i$: that is the *mask*. A place does not see what comes after it, so that the network can be asked
# at every place for the next token, and has not seen it. In code the forbidden scores become minus infinity, whose
# exponential is 0. The division by $\sqrt{D}$ keeps scores from growing with the width of a head; otherwise the
# softmax would choose one place and learn nothing of the others.
#
# Several *heads* do so side by side, each with a slice of the vector; what they found is laid side by side again and
# mixed by one more matrix.


# %%
def attention_by_hand(attention, x_TC):
    """Return what masked attention makes of vectors, and its weights [H, T, T]."""
    qkv = x_TC @ attention.qkv.weight.T + attention.qkv.bias
    q, k, v = qkv.split(SHAPE.width, dim=1)
    gathered, weights = [], []
    for head in range(H):
        own = slice(head * D, (head + 1) * D)
        scores = q[:, own] @ k[:, own].T / math.sqrt(D)
        allowed = torch.ones(T, T, dtype=torch.bool).tril()  # row i: places 0 to i
        exponentials = torch.where(allowed, scores.exp(), 0)
        a = exponentials / exponentials.sum(dim=1, keepdim=True)
        weights.append(a)
        gathered.append(a @ v[:, own])
    return torch.cat(gathered, dim=1) @ attention.out.weight.T + attention.out.bias, torch.stack(weights)


first = model.blocks[0]
mine, weights = attention_by_hand(first.attention, h0_TC)
theirs = first.attention(h0_TC.unsqueeze(0), None)[0]
print("largest difference to the package's attention:", (mine - theirs).abs().max().item())

assert same(mine, theirs)
assert same(weights.sum(-1), torch.ones(H, T)), "the weights of each place sum to 1"
assert (attention_weights(model, ids, layer=0) - weights).abs().max() < 1e-6, "the package shows them in float32"

# %% [markdown]
# ## A picture: who looks where
#
# A row is a place that looks, a column a place that is looked at. Above the diagonal is the future: no weight at all.
# The first place has only itself.

# %%
figure, axes = plt.subplots(1, 2, figsize=(7, 3.4), layout="constrained")
for head, (one, a) in enumerate(zip(axes, weights, strict=True)):
    shown = one.imshow(a.masked_fill(a == 0, math.nan).numpy(), vmin=0, vmax=1, cmap="Blues")
    one.set(title=f"head {head}", xlabel="looked at (place)", ylabel="looks (place)", xticks=range(T), yticks=range(T))
figure.colorbar(shown, ax=axes, label="weight", shrink=0.8)
plt.show()

# %% [markdown]
# ## Norm and feed-forward
#
# A *layer norm* shifts and scales each vector to mean 0 and variance 1, then applies a learned gain $g$ and bias $b$,
# so that the numbers neither explode nor vanish on their way through many blocks:
#
# $$\operatorname{LN}(x) = g \cdot \frac{x - \bar x}{\sqrt{\frac1C\sum_c (x_c - \bar x)^2 + 10^{-5}}} + b$$
#
# The *feed-forward* part is two matrices with the GELU between them, a bend that lets large numbers pass and small
# ones not. The released code has this approximation of it, and so do we:
#
# $$\operatorname{GELU}(x) = \tfrac12\, x \left(1 + \tanh\left(\sqrt{2/\pi}\,(x + 0.044715\, x^3)\right)\right)$$


# %%
def norm_by_hand(norm, x_TC):
    centred = x_TC - x_TC.mean(dim=1, keepdim=True)
    variance = centred.square().mean(dim=1, keepdim=True)
    return norm.gain * centred / (variance + 1e-5).sqrt() + norm.bias


def gelu_by_hand(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def feed_forward_by_hand(part, x_TC):
    wide_TF = gelu_by_hand(x_TC @ part.up.weight.T + part.up.bias)
    return wide_TF @ part.down.weight.T + part.down.bias


assert same(norm_by_hand(first.norm_1, h0_TC), first.norm_1(h0_TC))
assert same(gelu_by_hand(h0_TC), gelu(h0_TC))
assert same(feed_forward_by_hand(first.feed_forward, h0_TC), first.feed_forward(h0_TC, None))

# %% [markdown]
# ## A block, and the whole network
#
# Each part's result is *added* to what went in, then normalised. The sum is a road on which the gradient comes back;
# that the norm stands behind it is called *post-norm* (GPT-2 and later put it before):
#
# $$n = \operatorname{LN}_1(x + \operatorname{Attention}(x)), \qquad \operatorname{block}(x) = \operatorname{LN}_2(n +
# \operatorname{FeedForward}(n))$$
#
# After the last block each vector is multiplied with the token table that also stood at the entrance: the score of a
# token (*logit*) is how well the vector points to that token's row.
#
# $$h_l = \operatorname{block}_l(h_{l-1}), \qquad P(u) = \operatorname{softmax}(h_n W_e^\top)$$


# %%
def block_by_hand(block, x_TC):
    n_TC = norm_by_hand(block.norm_1, x_TC + attention_by_hand(block.attention, x_TC)[0])
    return norm_by_hand(block.norm_2, n_TC + feed_forward_by_hand(block.feed_forward, n_TC))


x_TC = h0_TC
for layer, block in enumerate(model.blocks):
    theirs = block(x_TC.unsqueeze(0), None)[0]
    x_TC = block_by_hand(block, x_TC)
    print(f"block {layer}: largest difference {(x_TC - theirs).abs().max().item():.1e}")
    assert same(x_TC, theirs)

logits_TV = x_TC @ model.tokens.T
hidden, output = model(ids.unsqueeze(0))
theirs = model.logits(hidden, output)[0]
print(f"logits: largest difference {(logits_TV - theirs).abs().max().item():.1e}")
assert same(logits_TV, theirs)
assert same(logits_TV.softmax(-1).sum(-1), torch.ones(T))

# %% [markdown]
# That is all of GPT-1's network. One thing is left to see: nothing of the future leaks. With another last token, all
# places before it say what they said.

# %%
other = ids.clone()
other[-1] = 12
hidden, output = model(other.unsqueeze(0))
changed = model.logits(hidden, output)[0]
assert same(changed[:-1], logits_TV[:-1])
assert not same(changed[-1], logits_TV[-1])
print("the future does not leak")

# %% [markdown]
# ## Exercises
#
# In each, replace the `...` and run the cell. The answer is in the cell after it, which also checks yours, if there is
# one.
#
# **Exercise 1.** `scores.exp()` above is fit for small scores only: $e^{1000}$ is infinite. Write a softmax of one row
# that survives large scores. A hint: what happens to it when the same number is taken from all scores?


# %% tags=["exercise"]
def my_softmax(scores):
    return ...


# %% tags=["answer"]
def softmax(scores):
    """Return the weights of scores: the largest is taken from all, so that no exponential exceeds 1."""
    exponentials = (scores - scores.max()).exp()
    return exponentials / exponentials.sum()


large = torch.tensor([1000.0, 1001.0, 990.0], dtype=torch.float64)
assert large.exp().isinf().all()
assert same(softmax(large), large.softmax(0))
assert same(softmax(large), softmax(large - 500))
assert my_softmax(large) is ... or same(my_softmax(large), softmax(large)), "not yet: take the largest score from all"

# %% [markdown]
# **Exercise 2.** A *sliding window* is one way past attention's cost, which grows with the square of the length: each
# place sees itself and only so many places before it. Write the mask `[T, T]` of a window of 3 places, true where
# place $i$ may look at $j$.

# %% tags=["exercise"]
my_window = ...

# %% tags=["answer"]
i, j = torch.arange(T).unsqueeze(1), torch.arange(T)
window = (j <= i) & (j > i - 3)
windowed = random_model(Shape(**{**vars(SHAPE), "window": 3}))
assert torch.equal(window, (attention_weights(windowed, ids, layer=0) > 0).all(dim=0)), "as the package has it"
assert window.sum(dim=1).tolist() == [1, 2, 3, 3, 3, 3]
assert my_window is ... or same(my_window, window), "not yet: three places at most, the own one among them"

# %% [markdown]
# **Exercise 3.** How many parameters has one of the paper's blocks? Its width C is 768, the feed-forward part is 3,072
# wide; every matrix has its bias, every norm a gain and a bias. With the two tables (40,478 tokens, 512 places) that
# makes the whole network.

# %% tags=["exercise"]
my_block = ...

# %% tags=["answer"]
C, F = 768, 3072
block = (3 * C * C + 3 * C) + (C * C + C) + (C * F + F) + (F * C + C) + 2 * (2 * C)
with torch.device("meta"):  # sizes without values: nothing of half a gigabyte is filled
    paper = build_model(Shape(), 40_478)
assert block == 7_087_872 == sum(parameter.numel() for parameter in paper.blocks[0].parameters())
assert 12 * block + 40_478 * C + 512 * C == 116_534_784 == sum(parameter.numel() for parameter in paper.parameters())
assert my_block in (..., block), "not yet: four matrices with biases, and two norms"
