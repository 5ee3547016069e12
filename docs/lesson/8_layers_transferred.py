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
# # 8. What each layer is worth
#
# *The paper's section 5, "Impact of number of layers transferred", and figure 2, left.*
#
# Lesson 6 compared all with nothing: a network that has read, and one that has not. What lies between? **Afterwards
# you will know**
#
# - which weights are taken over if only so many blocks are, and what becomes of the others,
# - how much of what was learned is in the table of words, and how much in the blocks,
# - what such a comparison can show, and what it cannot.
#
# The paper takes 0 to 12 blocks over, on MNLI and RACE: the embeddings alone help, each block adds to it, and all of
# them are worth up to 9 % on MNLI. Our network has 2 blocks, so there are three amounts, and nothing at all. On two
# cores this takes about a minute; what lesson 6 has made is used again.

# %%
from pathlib import Path

import matplotlib.pyplot as plt
import torch

from gpt1 import finetune
from gpt1.base.progress import Silent
from gpt1.demo.recipe import LEARNING, LESSON, LESSON_SEED, PRETRAINED, RATES, SCRATCH
from gpt1.demo.tasks import ENTAILMENT
from gpt1.demo.tour import LABELLED_DATA, make_reader, make_text
from gpt1.finetuning.results import results
from gpt1.finetuning.transfer import make_classifier
from gpt1.inference.run import load_run
from gpt1.recipes.changes import change

torch.set_num_threads(1)
FOLDER = Path("gpt1-lesson")
make_text(FOLDER, LESSON, LESSON_SEED, Silent())
make_reader(FOLDER, LESSON, Silent(), [])  # lesson 5
reader = load_run(FOLDER / "reader", device="cpu")
DEPTH = reader.recipe.shape.layers

# %% [markdown]
# ## What is taken over
#
# With $k$ blocks: the token table, and blocks 1 to $k$. The blocks above, the last norm, the head and the rows of the
# three special tokens begin with random weights. Then *all* of it learns.


# %%
def begin(layers):
    """Return the network with which a fine-tuning begins that takes so many blocks over."""
    shaped = change(LEARNING, [f"finetuning.transfer_layers={layers}"])
    recipe = change(shaped, [f"shape.{name}={value}" for name, value in SHAPE.items()])
    return make_classifier(recipe, {"entailment": ENTAILMENT}, reader.tokenizer.vocab_size, FOLDER / "reader").body


SHAPE = {name: str(value).lower() for name, value in vars(reader.recipe.shape).items()}
read = dict(reader.model.named_parameters())
for layers in range(DEPTH + 1):
    body = begin(layers)
    rows = reader.tokenizer.vocab_size  # behind them in the table: the special tokens
    taken = {name for name, value in body.named_parameters() if torch.equal(value[: len(read[name])], read[name])}
    # Biases begin as 0 and gains as 1 in any network; by its matrices it can be seen which blocks are the reader's.
    matrices = sorted(name for name in taken if read[name].ndim == 2)
    print(f"{layers} blocks:", ", ".join(matrices))
    expected = {name for name, value in read.items() if value.ndim == 2}
    expected -= {name for name in expected if name.startswith("blocks.") and int(name.split(".")[1]) >= layers}
    assert set(matrices) == expected

# %% [markdown]
# ## The comparison
#
# The task of lesson 6, four times: from nothing, from the table, from the table and one block, from everything.

# %%
ARMS = {"nothing": (SCRATCH, "finetuning.scratch=true", SCRATCH)}
for layers in range(DEPTH):
    name = f"table and {layers} block" if layers else "table"
    ARMS[name] = (PRETRAINED, f"finetuning.transfer_layers={layers}", f"{layers}")
ARMS["everything"] = (PRETRAINED, "finetuning.scratch=false", PRETRAINED)

found = {}
for name, (arm, setting, folder) in ARMS.items():
    run = finetune(
        FOLDER / "reader",
        FOLDER / "runs" / f"entailment-{folder}",
        task="gpt1.demo.tasks:ENTAILMENT",
        data=FOLDER / LABELLED_DATA,
        recipe=LEARNING,
        changes=[f"optimizer.lr={RATES[arm]}", setting],
        resume=True,
        device="cpu",
    )
    found[name] = results(run)["tasks"]["entailment"]["test"]
    accuracy, (low, high) = found[name]["metrics"]["accuracy"], found[name]["intervals"]["accuracy"]
    print(f"{name:18} {100 * accuracy:5.1f} % right, between {100 * low:.1f} and {100 * high:.1f} with 95 % confidence")

# %% [markdown]
# ## A picture: figure 2, left, in small

# %%
scores = [100 * facts["metrics"]["accuracy"] for facts in found.values()]
lows, highs = zip(*(facts["intervals"]["accuracy"] for facts in found.values()), strict=True)
reach = [
    [max(0, score - 100 * low) for score, low in zip(scores, lows, strict=True)],
    [max(0, 100 * high - score) for score, high in zip(scores, highs, strict=True)],
]
figure, axes = plt.subplots(figsize=(6.5, 3.4), layout="constrained")
axes.errorbar(range(len(scores)), scores, yerr=reach, marker="o", capsize=4)
axes.axhline(50, color="black", linestyle=":", linewidth=1)
axes.text(len(scores) - 1, 51, "chance", ha="right")
axes.set_xticks(range(len(scores)), found)
axes.set(xlabel="taken over from the network that has read", ylabel="right, % of the test", ylim=(40, 104))
plt.show()

nothing, table, *_, everything = scores
assert everything > nothing + 15
assert everything >= table, "what is in the blocks is worth something"

# %% [markdown]
# The table knows which words are about the same trade. The first block knows how to bring them together. In a network
# of two blocks that is nearly all there is to know; in the paper's twelve, each adds a little.
#
# What this does *not* show: the bars say how far chance reaches in drawing 400 rows. They do not say what another seed
# of the fine-tuning would give. For that the same is done with several seeds (`finetune(seeds=3)`), and `gpt1 study
# transfer` does it for any run and task.
#
# ## Exercises
#
# In each, replace the `...` and run the cell. The answer is in the cell after it, which also checks yours, if there is
# one.
#
# **Exercise 1.** The paper's network, of which only the embeddings and the first 6 of 12 blocks are taken over: how
# many of its 116,534,784 parameters are that? A block has 7,087,872, the tables 40,478 and 512 rows of 768.

# %% tags=["exercise"]
my_taken = ...

# %% tags=["answer"]
taken_over = (40_478 + 512) * 768 + 6 * 7_087_872
assert taken_over == 116_534_784 - 6 * 7_087_872
assert taken_over == 74_007_552
assert my_taken in (..., taken_over), "not yet: two tables and six blocks"

# %% [markdown]
# **Exercise 2.** Is it the *weights* of the table that help, or would any table do whose rows are as long? Shuffle:
# which distance do you expect between two rows that belong to one trade, and between rows that do not? Write the mean
# cosine similarity of all pairs in `TRADE`, computed from `rows_of`. (To 0.01.)

# %%
TRADE = ["spade", "rake", "flowerpot", "garden", "gardening"]
OTHERS = ["needle", "hammer", "lantern", "bakery", "teaching"]


def rows_of(words):
    """Return the table's rows of words that are one token each, with length 1."""
    ids = [reader.tokenizer.encode(word) for word in words]
    assert all(len(own) == 1 for own in ids), "each word of this world is one token"
    return torch.nn.functional.normalize(reader.model.tokens.detach()[[own[0] for own in ids]], dim=1)


# %% tags=["exercise"]
my_similarity = ...


# %% tags=["answer"]
def similarity(words):
    """Return the mean cosine of all pairs of different words."""
    cosines = rows_of(words) @ rows_of(words).T
    return (cosines.sum() - len(words)).item() / (len(words) * (len(words) - 1))


within, across = similarity(TRADE), similarity(OTHERS)
print(f"words of one trade {within:.2f}, of five trades {across:.2f}")
assert within > across + 0.1, "reading brought the words of a trade together"
assert my_similarity is ... or abs(my_similarity - within) < 0.01, "not yet: all pairs, but none with itself"

# %% [markdown]
# **Exercise 3.** 400 test rows, and a network that only guesses. Within how many points around 50 % do its scores lie
# in 95 of 100 draws? Use the standard deviation of a share, $\sqrt{p(1-p)/n}$, and 1.96 of it to either side. (To 0.1
# points.)

# %% tags=["exercise"]
my_points = ...

# %% tags=["answer"]
points = 100 * 1.96 * (0.5 * 0.5 / 400) ** 0.5
assert abs(points - 4.9) < 0.01
low, high = found["table"]["intervals"]["accuracy"]
assert abs(100 * (high - low) / 2 - points) < 1.5, "the package's interval, Wilson's, is about as wide"
assert my_points is ... or abs(my_points - points) < 0.1, "not yet: p is 0.5 and n is 400"
