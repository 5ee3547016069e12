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
# # 7. Zero-shot: asked without having been taught
#
# *The paper's section 5, "Zero-shot behaviors", and figure 2, right.*
#
# Why does reading help with tasks? The paper's guess: whoever predicts text well has to learn much of what the tasks
# ask for. So it asked the network before any fine-tuning. A language model can do one thing, say how likely a text is;
# so a question has to become a comparison of texts. **Afterwards you will know**
#
# - three such rules (*heuristics*), and why a mean is compared and not a sum,
# - how what the network can do grows with what it has read,
# - the scale on which the paper drew it.
#
# The paper asked about sentiment (SST-2), acceptability (CoLA), exams (RACE) and pronouns (Winograd schemas). We ask
# about our small world: endings, moods, pronouns. The people in the tests have trades that no text has told of.

# %%
from dataclasses import replace
from pathlib import Path

import matplotlib.pyplot as plt
import torch

from gpt1.base.progress import Silent
from gpt1.demo.recipe import LESSON, LESSON_SEED
from gpt1.demo.tasks import CHOICE, ENDING, PRONOUN
from gpt1.demo.tour import LABELLED_DATA, make_reader, make_text
from gpt1.demo.zeroshot import RULES, make_questions, share_right
from gpt1.inference.prompts import find_rule, make_prompts
from gpt1.inference.run import load_run
from gpt1.inference.zeroshot import Questions, answer
from gpt1.runs.checkpoints import list_checkpoints
from gpt1.studies.paper import normalised
from gpt1.tasks.examples import Labelled
from gpt1.tasks.readers import read_folder

torch.set_num_threads(1)
FOLDER = Path("gpt1-lesson")
make_text(FOLDER, LESSON, LESSON_SEED, Silent())
make_reader(FOLDER, LESSON, Silent(), [])  # lesson 5
run = load_run(FOLDER / "reader", step="last", device="cpu")
encode = run.tokenizer.encode

# %% [markdown]
# ## Which ending belongs to the story?
#
# The rule for choices: read the context, then each answer, and take the answer whose tokens are the likelier *on
# average*:
#
# $$\hat y = \operatorname*{arg\,max}_k \frac{1}{n_k} \sum_{i=1}^{n_k} \log P(a^k_i \mid \text{context}, a^k_1, \dots,
# a^k_{i-1})$$
#
# No label is used, nothing is learned.

# %%
choices = read_folder(CHOICE, FOLDER / LABELLED_DATA)
asked = choices.splits["test"][:60]


def log_probabilities(before, scored):
    """Return the log-probability of each scored token, given all before it."""
    ids = torch.tensor(before + scored)
    with torch.no_grad():
        hidden, output = run.model(ids.unsqueeze(0))
        beliefs = (hidden[0, :-1] @ output.T).log_softmax(dim=1)
    return beliefs.gather(1, ids[1:].unsqueeze(1))[len(before) - 1 :, 0]


def by_hand(example):
    """Return which answer the network finds the likelier."""
    context, _, *answers = example.texts  # between them a question, which these stories do not have
    means = [log_probabilities(encode(context), encode(one)).mean().item() for one in answers]
    return means.index(max(means))


context, _, *answers = asked[0].texts
print(context)
for one in answers:
    print(f"    {log_probabilities(encode(context), encode(one)).mean().item():.3f}  {one}")

mine = [by_hand(example) for example in asked]
right = sum(a == example.label for a, example in zip(mine, asked, strict=True))
few = Labelled(CHOICE, {"test": asked})
prompts = make_prompts(few, "test", run.tokenizer, run.recipe.shape.context)
theirs = answer(run, Questions(prompts))
print(f"right by hand: {right} of {len(asked)}; by the package: {theirs.metrics['accuracy']:.3f}")
assert abs(theirs.metrics["accuracy"] - right / len(asked)) < 1e-9
assert right > 0.8 * len(asked)

# %% [markdown]
# ## Three rules
#
# The *mood* of a hero is asked as the paper asks for sentiment: a few words are appended, once sad and once happy, and
# the likelier is taken. A *pronoun* is replaced by each candidate, and what comes *after* it is scored.

# %%
for task in (ENDING, PRONOUN):
    example = read_folder(task, FOLDER / LABELLED_DATA).splits["test"][0]
    print(task.title)
    for reading in RULES[task.name].readings(example):
        print(f"    {''.join(reading.before)}  [scored: {''.join(reading.scored).strip()}]")

# %% [markdown]
# ## A picture: what is known after how many updates
#
# Each checkpoint of the reading of lesson 5 is asked the same questions.

# %%
steps = [step for step, _ in list_checkpoints(FOLDER / "reader")]
questions = make_questions(run, FOLDER / LABELLED_DATA)
shares = {name: [] for name in questions}
for step in steps:
    reader = load_run(FOLDER / "reader", step=step, device="cpu")
    for name, asked_of_it in questions.items():
        shares[name].append(100 * share_right(reader, asked_of_it))
    print(f"update {step:5}:", {name: round(values[-1], 1) for name, values in shares.items()})

figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
titles = {"ending": "is the hero glad?", "choice": "which ending?", "pronoun": "whom does the pronoun mean?"}
for (name, values), mark in zip(shares.items(), "os^", strict=True):
    axes.plot(steps, values, marker=mark, label=titles[name])
axes.axhline(50, color="black", linestyle=":", linewidth=1)
axes.text(steps[-1], 51, "chance", ha="right")
axes.set(xlabel="updates of pre-training", ylabel="right without a label, %", ylim=(40, 104), xticks=steps[1::2])
figure.legend(loc="outside lower center", ncols=3)
plt.show()

assert shares["choice"][-1] > 80
assert shares["pronoun"][-1] > 80
assert shares["choice"][-1] > shares["choice"][0] + 20, "it grows with reading"

# %% [markdown]
# In the paper the curves grow steadily. Ours jump: each question here hangs on one insight, that a gift can fit a
# trade, or that a thing belongs to one, and an insight comes suddenly. Nobody taught it: it makes the next words
# likelier.
#
# ## Exercises
#
# In each, replace the `...` and run the cell. The answer is in the cell after it, which also checks yours, if there is
# one.
#
# **Exercise 1.** The pronoun's rule. A row has a text, a pronoun and two candidates. Return a list with, for each
# candidate, the text up to and with the candidate in the pronoun's place, and the rest of the text, which is scored.
# The pronoun is a word of its own and stands there once.


# %% tags=["exercise"]
def my_readings(text, pronoun, candidates):
    return ...


# %% tags=["answer"]
def readings(text, pronoun, candidates):
    """Return what is read and what is scored, for each candidate."""
    before, rest = text.split(f" {pronoun} ")
    return [(f"{before} {candidate}", f" {rest}") for candidate in candidates]


example = read_folder(PRONOUN, FOLDER / LABELLED_DATA).splits["test"][0]
text, pronoun, *candidates = example.texts
package = [("".join(one.before), "".join(one.scored)) for one in find_rule(PRONOUN).readings(example)]
assert readings(text, pronoun, candidates) == package
mine = my_readings(text, pronoun, candidates)
assert mine in (..., package), "not yet: part the text at the pronoun, put the candidate there"

# %% [markdown]
# **Exercise 2.** Two answers, of 4 and of 8 tokens. Each token of the first has the log-probability -1.0, each of the
# second -0.8. Which one is taken by the mean, and which by the sum? Write a pair of numbers, 0 for the first answer
# and 1 for the second.

# %% tags=["exercise"]
my_takes = ...

# %% tags=["answer"]
logs = [[-1.0] * 4, [-0.8] * 8]
means, sums = [sum(one) / len(one) for one in logs], [sum(one) for one in logs]
takes = means.index(max(means)), sums.index(max(sums))
assert takes == (1, 0), "a sum prefers what is short: every further token costs something"
by_sum = answer(run, Questions(make_prompts(few, "test", run.tokenizer, 64, rule=replace(prompts.rule, by_mean=False))))
shares_right = [found.metrics["accuracy"] for found in (theirs, by_sum)]
print(f"of our {len(asked)} stories: by the mean {shares_right[0]:.3f}, by the sum {shares_right[1]:.3f}")
assert my_takes in (..., takes), "not yet: -4 is more than -6.4"

# %% [markdown]
# **Exercise 3.** Tasks have different scores and different chances, so the paper drew them on one scale: 0 is chance,
# 1 the best model of the time. A network answers 35 % of RACE's questions rightly, which have four answers each; the
# best had 53.3 %. Where on the scale is it? (To 0.01.)

# %% tags=["exercise"]
my_place = ...

# %% tags=["answer"]
place = (35 - 25) / (53.3 - 25)
assert abs(place - 0.353) < 0.001
assert abs(normalised("race", 0.35) - place) < 1e-9
assert my_place is ... or abs(my_place - place) < 0.01, "not yet: chance is 25 here"
