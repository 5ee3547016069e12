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
# # 5. A tiny pre-training
#
# *The paper's sections 3.1 and 4.1, "Unsupervised pre-training".*
#
# All parts are there: ids, network, loss, optimiser. Now they read. **Afterwards you will know**
#
# - how a long text becomes batches, so that every token is predicted once,
# - what a learning curve looks like, and against which yardsticks to hold it,
# - how a language model writes.
#
# The paper's network has 117 million parameters, and read some 7,000 books a hundred times. Ours has under half a
# million and reads 11,000 little stories once, in about a minute. In it the norms stand before the branches and
# positions are rotations instead of a table: so small a network learns this world sooner that way ([the
# demo](../demo.md) tells how that was found). For the same reason first weights and the rate are larger, the rate
# stays up for longer, updates are smaller, and nothing is dropped out. Loss and optimiser are those of the lessons
# before.
#
# What is made here lies in the folder `gpt1-lesson` beside this notebook. The lessons after this one use it; it is
# made once.

# %%
import json
import math
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch

from gpt1 import load_run
from gpt1.base.progress import Silent
from gpt1.demo.recipe import LESSON, LESSON_SEED
from gpt1.demo.tour import make_reader, make_text
from gpt1.model import token_losses
from gpt1.pretraining.stream import TokenStream
from gpt1.pretraining.windows import Windows
from gpt1.runs.events import Evaluated

torch.set_num_threads(1)  # so that figures do not depend on how many cores there are
FOLDER = Path("gpt1-lesson")

# %% [markdown]
# ## The text
#
# People have trades, trades have places and things. Somebody gives a hero a thing. If it belongs to the hero's trade
# the hero is glad, else sorry. No story says that it is so.

# %%
make_text(FOLDER, LESSON, LESSON_SEED, Silent())
stories = (FOLDER / "world" / "corpus" / "stories-0000.txt").read_text().split("\n")
for story in stories[:3]:
    print(story[:240], "...\n")

# %% [markdown]
# ## Reading
#
# One call learns a vocabulary, encodes the text, and pre-trains. The recipe says with which numbers; each update reads
# 6 windows of 64 tokens. The figures that appear are the loss on stories that are kept apart and never learned.

# %%
RECIPE = LESSON.pretraining
print(RECIPE.shape, RECIPE.training, sep="\n")


def tell(event):
    """Print how the reading goes."""
    if isinstance(event, Evaluated) and event.step % 500 == 0:
        print(f"update {event.step:5}: {event.scores['valid_loss']:.3f} nats on stories that it has not read")


make_reader(FOLDER, LESSON, Silent(), [tell])
run = load_run(FOLDER / "reader", step="last", device="cpu")
V = run.tokenizer.vocab_size
print(f"{V} tokens; {sum(parameter.numel() for parameter in run.model.parameters()):,} parameters")

# %% [markdown]
# ## Batches
#
# The encoded text is one long row of ids. It is cut into *windows*: 64 ids, and for each the id after it, its target.
# The windows are shuffled, and six of them are a batch. In one *epoch*, a pass over the text, every token but the very
# first is a target exactly once. In each epoch the cuts are elsewhere, so that no token is always the first of its
# window, where it would have to be guessed from nothing.

# %%
stream = TokenStream(FOLDER / "tokens", "train")
text = stream.read([0], len(stream))[0]
windows = Windows(stream, context=RECIPE.shape.context, batch=RECIPE.training.batch, seed=0)
batch = windows.batch(0).arrays
print("a window begins:", run.tokenizer.decode(batch["ids"][0][:12]))
print("its targets:    ", run.tokenizer.decode(batch["targets"][0][:12]))

goes_on = batch["targets"][:, 1:] >= 0  # a short window at the end of the text is filled up with targets below 0
assert (batch["ids"][:, 1:] == batch["targets"][:, :-1])[goes_on].all(), "targets are the inputs, one place on"

met = np.zeros(V, int)
k = 0
while met.sum() < len(stream) - 1:
    targets = windows.batch(k).arrays["targets"]
    met += np.bincount(targets[targets >= 0], minlength=V)
    k += 1
print(f"one epoch is {k:,} batches with {met.sum():,} targets")
assert (met == np.bincount(text[1:], minlength=V)).all(), "every token but the first, once"

# %% [markdown]
# ## Yardsticks
#
# Is a loss of one nat good? A loss needs something to be held against. Who knows nothing has $\log V$. Who knows only
# how frequent each token is has the *entropy* of these frequencies:
#
# $$H = -\sum_v f_v \log f_v$$

# %%
nothing = math.log(V)
frequencies = np.bincount(text, minlength=V) / len(text)
frequencies = frequencies[frequencies > 0]
entropy = -(frequencies * np.log(frequencies)).sum()

lines = [json.loads(line) for line in (FOLDER / "reader" / "metrics.jsonl").read_text().splitlines()]
learned = [(line["step"], line["loss"]) for line in lines if "loss" in line]
valid = [(line["step"], line["valid_loss"]) for line in lines if "valid_loss" in line]
print(f"knowing nothing {nothing:.2f}, frequencies {entropy:.2f}, the network {valid[-1][1]:.2f} nats a token")
assert valid[-1][1] < entropy / 2

# %% [markdown]
# The figure on kept stories, by hand: the loss of lesson 3 over windows that do not overlap, all targets counted
# alike.

# %%
kept = TokenStream(FOLDER / "tokens", "valid")
tokens = torch.from_numpy(kept.read([0], RECIPE.logging.evaluate_tokens)[0]).long()
total = 0.0
for first in range(0, len(tokens) - 1, RECIPE.shape.context):
    window = tokens[first : first + RECIPE.shape.context + 1]
    with torch.no_grad():
        hidden, output = run.model(window[:-1].unsqueeze(0))
    total += token_losses(hidden[0], output, window[1:], V).double().sum().item()
by_hand = total / (len(tokens) - 1)
print(f"by hand {by_hand:.6f}, by the package {valid[-1][1]:.6f}")
assert abs(by_hand - valid[-1][1]) < 1e-4, "float32 rounds at the seventh digit"

# %% [markdown]
# ## A picture: the learning curve
#
# First the network learns how frequent tokens are, within a few updates. Then which words follow each other, sentence
# by sentence. What is left after that cannot be known: nobody can foresee whom the next story is about.

# %%
figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
axes.plot(*zip(*learned, strict=True), color="tab:blue", alpha=0.5, label="stories that are being read")
axes.plot(*zip(*valid, strict=True), color="tab:orange", marker="o", label="stories kept apart")
axes.axhline(nothing, color="gray", linestyle=":", label="knows nothing")
axes.axhline(entropy, color="gray", linestyle="--", label="knows how frequent tokens are")
axes.set(xlabel="update", ylabel="loss, nats a token", ylim=(0, 7.5))
axes.legend(fontsize=9)
plt.show()

# %% [markdown]
# ## Writing
#
# A language model writes by drawing the next token from its probabilities, again and again. Below, the network after
# 500 updates and after all of them. A *temperature* below 1 makes likely tokens likelier still; at 0 always the
# likeliest is taken.

# %%
for step in (500, RECIPE.training.steps):
    reader = load_run(FOLDER / "reader", step=step, device="cpu")
    written = reader.generate("Emma was the gardener.", max_new_tokens=40, temperature=0.7, seed=1)
    print(f"after {step} updates: Emma was the gardener.{written}\n")

# %% [markdown]
# ## Exercises
#
# In each, replace the `...` and run the cell. The answer is in the cell after it, which also checks yours, if there is
# one.
#
# **Exercise 1.** Write like the network at temperature 0: return the ids that follow, each the likeliest after all
# before it. `run.model(ids)` of a batch of one sequence returns the last vectors and the table; multiply.


# %% tags=["exercise"]
def my_continuation(ids, count):
    return ...


# %% tags=["answer"]
@torch.no_grad()
def continuation(ids, count):
    """Return the likeliest `count` ids after `ids`, one after another."""
    written = list(ids)
    for _ in range(count):
        hidden, output = run.model(torch.tensor([written]))
        written.append(int((hidden[0, -1] @ output.T).argmax()))
    return written[len(ids) :]


prompt = "Emma was the gardener."
ids = run.tokenizer.encode(prompt)
(theirs,) = run.generate_batch([prompt], max_new_tokens=12, temperature=0)
print(run.tokenizer.decode(ids + continuation(ids, 12)))
assert continuation(ids, 12) == list(theirs.ids)
assert my_continuation(ids, 12) in (..., continuation(ids, 12)), "not yet: score, argmax, append, again"

# %% [markdown]
# **Exercise 2.** A better yardstick: who knows which token follows which, and sees only the one before. Its loss on
# the text is the entropy of the next token given the one before,
#
# $$-\frac1N \sum_{(a, b)} \operatorname{count}(a, b)
# \log \frac{\operatorname{count}(a, b)}{\operatorname{count}(a)}$$
#
# over all neighbours a, b in `text`. How many nats is that? (To 0.01.) Does the network know more?

# %% tags=["exercise"]
my_pairs = ...

# %% tags=["answer"]
before, after = text[:-1].astype(int), text[1:].astype(int)
both = np.bincount(before * V + after, minlength=V * V).reshape(V, V)
alone = both.sum(axis=1, keepdims=True)
there = both > 0
pairs = -(both * np.log(both / np.maximum(alone, 1), where=there, out=np.zeros(both.shape))).sum() / len(after)
print(f"frequencies {entropy:.2f}, pairs {pairs:.2f}, the network {by_hand:.2f}")
assert by_hand < pairs < entropy, "the network sees further than one word"
assert my_pairs is ... or abs(my_pairs - pairs) < 0.01, "not yet: count pairs, divide by how often the first one stands"

# %% [markdown]
# **Exercise 3.** How often has the network met each token of its text, on average? (To 0.1.) The paper's met each a
# hundred times.

# %% tags=["exercise"]
my_epochs = ...

# %% tags=["answer"]
read = RECIPE.training.steps * RECIPE.training.batch * RECIPE.shape.context
epochs = read / len(text)
print(f"{read:,} tokens read, of {len(text):,}: {epochs:.2f} epochs")
assert abs(epochs - 1) < 0.1
assert abs(epochs - RECIPE.training.steps / k) < 0.01, "so many batches of so many an epoch"
assert my_epochs is ... or abs(my_epochs - epochs) < 0.1, "not yet: updates x windows x tokens, of all tokens"
