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
# # 6. Four shapes of input, and fine-tuning
#
# *The paper's sections 3.2 and 3.3, figure 1, and the row "no pre-training" of table 5.*
#
# A network that has read knows a lot, but answers nothing: it continues texts. Now it is to learn tasks from a few
# hundred labelled examples, and to change as little as possible. **Afterwards you will know**
#
# - how one text, two texts, two alike texts, or a choice among answers become one row of tokens each,
# - the three losses of the paper, and what is new in the network,
# - what pre-training is worth: the same task, with and without it.
#
# The paper fine-tunes 117 million parameters on 2,490 (RTE) to 549,367 (SNLI) examples, three epochs at a rate of
# $6.25\cdot10^{-5}$. We have half a million parameters, 600 examples, ten epochs, and larger rates that were chosen on
# another made-up world, for each arm its own. On two cores this takes half a minute; what is there already is not made
# again.

# %%
from pathlib import Path

import matplotlib.pyplot as plt
import torch

from gpt1 import finetune
from gpt1.base.progress import Silent
from gpt1.demo.recipe import LEARNING, LESSON, LESSON_SEED, PRETRAINED, RATES, SCRATCH
from gpt1.demo.tasks import CHOICE, ENDING, ENTAILMENT, SIMILARITY
from gpt1.demo.tour import LABELLED_DATA, make_reader, make_text
from gpt1.finetuning.objective import TaskLearning
from gpt1.finetuning.results import results
from gpt1.inference.run import load_run
from gpt1.model import HeadShape, build_classifier, build_model, pack
from gpt1.recipes.values import Shape
from gpt1.tasks.readers import read_folder
from gpt1.tasks.shapes import BOTH, PAIR, lay_out
from gpt1.text.specials import special_ids

torch.set_num_threads(1)
FOLDER = Path("gpt1-lesson")
make_text(FOLDER, LESSON, LESSON_SEED, Silent())
make_reader(FOLDER, LESSON, Silent(), [])  # lesson 5
reader = load_run(FOLDER / "reader", device="cpu")
V, CONTEXT = reader.tokenizer.vocab_size, reader.recipe.shape.context
START, DELIMITER, EXTRACT = special_ids(V).values()

# %% [markdown]
# ## Four shapes
#
# The network reads one row of tokens and must not be rebuilt for each task. So every example becomes one row, or a
# few, with three new tokens in them: *start*, *delimiter*, *extract*. No text can contain them. The answer is read off
# where extract stands, the last place, which has seen everything.
#
# | shape | rows |
# |---|---|
# | one text | start text extract |
# | pair (does b follow?) | start a delimiter b extract |
# | both (are they alike?) | start a delimiter b extract, and the same with a and b exchanged; their vectors are added |
# | choices | start context delimiter answer extract, for each answer; a score each, and a softmax over them |

# %%
EXAMPLES = {
    task.name: read_folder(task, FOLDER / LABELLED_DATA).splits["train"][0]
    for task in (ENDING, ENTAILMENT, SIMILARITY, CHOICE)
}


def rows_of(task):
    """Return the rows of tokens of a task's first example."""
    parts = [reader.tokenizer.encode(text) for text in EXAMPLES[task.name].texts]
    return lay_out(task.shape, parts, vocab_size=V, context=CONTEXT).sequences


for task in (ENDING, ENTAILMENT, SIMILARITY, CHOICE):
    print(f"{task.shape}: {task.title}")
    for row in rows_of(task):
        print("   ", reader.tokenizer.decode(row))

(row,) = rows_of(ENTAILMENT)
a, b = (reader.tokenizer.encode(text) for text in EXAMPLES["entailment"].texts)
assert row == [START, *a, DELIMITER, *b, EXTRACT]
assert len(rows_of(SIMILARITY)) == len(rows_of(CHOICE)) == 2

# %% [markdown]
# ## A picture: figure 1 of the paper, with our examples

# %%
COLORS = {START: "tab:green", DELIMITER: "tab:orange", EXTRACT: "tab:red"}
figure, axes = plt.subplots(figsize=(8, 3.2), layout="constrained")
names, height = [], 0
for task in (ENDING, ENTAILMENT, SIMILARITY, CHOICE):
    for number, row in enumerate(rows_of(task), 1):
        axes.bar(
            range(len(row)),
            [0.7] * len(row),
            bottom=-height - 0.35,
            width=0.9,
            color=[COLORS.get(id, "lightsteelblue") for id in row],
        )
        names.append(f"{task.shape} {number}" if len(rows_of(task)) > 1 else task.shape)
        height += 1
axes.set_yticks([-place for place in range(height)], names)
axes.set(xlabel="place in the row", title="one small box is one token")
for name, id in (("start", START), ("delimiter", DELIMITER), ("extract", EXTRACT)):
    axes.bar(0, 0, color=COLORS[id], label=name)
axes.bar(0, 0, color="lightsteelblue", label="text")
axes.legend(ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.2))
axes.spines[["top", "right", "left"]].set_visible(False)
plt.show()

# %% [markdown]
# ## Learning a task
#
# New are a matrix $W_y$ with a bias, and the vectors of the three tokens. With $h_m$ for the last block's output at
# extract,
#
# $$P(y \mid x) = \operatorname{softmax}(h_m W_y), \qquad L_2 = \sum_{(x, y)} \log P(y \mid x)$$
#
# Beside the task the network goes on to predict words, with weight $\lambda = 0.5$, so that it does not forget how:
#
# $$L_3 = L_2 + \lambda L_1$$
#
# Does the second sentence follow from the story? Two networks of the same shape learn it from the same 600 examples;
# one has read, the other begins with random weights.

# %%
ARMS = {PRETRAINED: "false", SCRATCH: "true"}
runs = {}
for arm, scratch in ARMS.items():
    runs[arm] = finetune(
        FOLDER / "reader",
        FOLDER / "runs" / f"entailment-{arm}",
        task="gpt1.demo.tasks:ENTAILMENT",
        data=FOLDER / LABELLED_DATA,
        recipe=LEARNING,
        changes=[f"optimizer.lr={RATES[arm]}", f"finetuning.scratch={scratch}"],
        resume=True,
        device="cpu",
    )
found = {arm: results(run)["tasks"]["entailment"]["test"] for arm, run in runs.items()}
for arm, facts in found.items():
    print(f"{arm:10} right: {100 * facts['metrics']['accuracy']:.1f} % of {facts['examples']} (chance: 50 %)")
assert found[PRETRAINED]["metrics"]["accuracy"] > found[SCRATCH]["metrics"]["accuracy"] + 0.15

# %% [markdown]
# The test has people with trades that no text and no labelled example has told of: nothing can be remembered. The
# paper's table 5 has the same comparison: without pre-training the average over eight tasks falls from 74.7 to 59.9.

# %%
figure, axes = plt.subplots(figsize=(5, 3.2), layout="constrained")
scores = [100 * facts["metrics"]["accuracy"] for facts in found.values()]
bars = axes.bar(["pre-trained", "from scratch"], scores, color=["tab:blue", "lightgray"], width=0.6)
axes.bar_label(bars, fmt="%.1f")
axes.axhline(50, color="black", linestyle=":", linewidth=1)
axes.text(0.5, 52, "chance", ha="center")
axes.set(ylim=(0, 108), ylabel="right, % of the test", title="the same network, the same 600 labels")
plt.show()

# %% [markdown]
# ## An answer by hand
#
# The row, the network, the vector at extract, one matrix, a softmax.

# %%
tuned = runs[PRETRAINED]
classifier = tuned.classifier
head = classifier.heads["entailment"]
tests = read_folder(ENTAILMENT, FOLDER / LABELLED_DATA).splits["test"][:5]
answers = tuned.predict([dict(zip(("a", "b"), example.texts, strict=True)) for example in tests])
for example, answer in zip(tests, answers, strict=True):
    parts = [reader.tokenizer.encode(text) for text in example.texts]
    (row,) = lay_out(PAIR, parts, vocab_size=V, context=CONTEXT).sequences
    with torch.no_grad():
        hidden, _ = classifier.body(torch.tensor([row]))
        by_hand = (hidden[0, -1] @ head.weight.T + head.bias).softmax(0)
    theirs = [answer["probabilities"][label] for label in ENTAILMENT.labels]
    print(f"by hand {by_hand.tolist()}, by the package {theirs}, right: {ENTAILMENT.labels[example.label]}")
    assert max(abs(mine - one) for mine, one in zip(by_hand.tolist(), theirs, strict=True)) < 1e-4

# %% [markdown]
# And the loss of one example, $L_3$, by hand and by the package.

# %%
(row,) = rows_of(ENTAILMENT)
ids, label = torch.tensor(row), EXAMPLES["entailment"].label
with torch.no_grad():
    hidden, output = classifier.body(ids.unsqueeze(0))
    task_loss = -(hidden[0, -1] @ head.weight.T + head.bias).log_softmax(0)[label]
    text_loss = -(hidden[0, :-1] @ output.T).log_softmax(1).gather(1, ids[1:].unsqueeze(1)).mean()
by_hand = task_loss + 0.5 * text_loss

learning = TaskLearning(classifier, lm_weight=0.5, tasks=["entailment"])
place = pack(torch.tensor([len(row)]))
batch = {
    "ids": ids,
    "offsets": place.offsets,
    "sequence": place.sequence,
    "position": place.position,
    "examples": torch.arange(1),
    "shares": torch.eye(2)[[label]],  # all of the probability on the right label
    "weights": torch.ones(1),
    "targets": torch.cat([ids[1:], torch.tensor([-1])]),  # behind extract nothing comes
    "token_weights": torch.full((len(row),), 1 / (len(row) - 1)),
}
with torch.no_grad():
    sums = learning(batch, None, task="entailment", longest=len(row))
theirs = sum(learning.weights[name] * value for name, value in sums.items())
print(f"task {task_loss:.4f} + 0.5 x text {text_loss:.4f} = {by_hand:.6f}; by the package {theirs:.6f}")
assert abs(by_hand - theirs) < 1e-4

# %% [markdown]
# ## Exercises
#
# In each, replace the `...` and run the cell. The answer is in the cell after it, which also checks yours, if there is
# one.
#
# **Exercise 1.** Lay out two texts that are alike or not: return the list of their rows.


# %% tags=["exercise"]
def my_rows(a, b):
    return ...


# %% tags=["answer"]
def both_orders(a, b):
    """Return both rows: which text comes first means nothing."""
    return [[START, *first, DELIMITER, *second, EXTRACT] for first, second in ((a, b), (b, a))]


assert both_orders(a, b) == lay_out(BOTH, [a, b], vocab_size=V, context=CONTEXT).sequences
assert my_rows(a, b) in (..., both_orders(a, b)), "not yet: two rows, start and extract around each"

# %% [markdown]
# **Exercise 2.** A pair whose parts have 40 and 25 tokens shall fit into a context of 64, special tokens included. The
# package cuts the longer part at its end, until both fit. How many tokens keep the two parts? Write a pair.

# %% tags=["exercise"]
my_lengths = ...

# %% tags=["answer"]
(cut,) = lay_out(PAIR, [[1] * 40, [2] * 25], vocab_size=V, context=64).sequences
lengths = cut.count(1), cut.count(2)
assert lengths == (36, 25)
assert len(cut) == 64
assert my_lengths in (..., lengths), "not yet: three places are taken by start, delimiter, extract"

# %% [markdown]
# **Exercise 3.** How many parameters does fine-tuning add to the paper's 116,534,784, for a task with three labels?

# %% tags=["exercise"]
my_new = ...

# %% tags=["answer"]
new = 3 * 768 + 3 + 3 * 768  # a matrix, its bias, and three vectors
with torch.device("meta"):
    body = build_model(Shape(), 40_478 + 3)
    three = build_classifier(body, {"three": HeadShape(outputs=3, sequences=1, scores_sequences=False)}, seed=0)
assert sum(parameter.numel() for parameter in three.parameters()) == 116_534_784 + new
assert new == 4_611
assert my_new in (..., new), "not yet: a matrix with bias, and three new tokens"
