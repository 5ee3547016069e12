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
# # 1. Text to ids
#
# *The paper's section 4.1, "Model specifications": the vocabulary.*
#
# A network computes with numbers, so text has to become numbers first. **Afterwards you will know**
#
# - the four steps from a text to whole numbers, called *ids*, and what each of them loses,
# - how a vocabulary of *merges* is learned from text, and how a word is spelled with it,
# - what becomes of a line end, and of a character that the vocabulary has never seen,
# - what a vocabulary of bytes does otherwise.
#
# The paper learned 40,000 merges from some 7,000 books. We learn 60, from stories about a small made-up world: few
# enough to look at each of them. The code is the same.

# %%
from collections import Counter
from itertools import pairwise
from random import Random

import matplotlib.pyplot as plt

from gpt1.demo.stories import tell_story
from gpt1.text.cleaning import clean
from gpt1.text.splitting import Splitter
from gpt1.text.training import WordCounter, train_bytes, train_words
from gpt1.text.words import WORD_END

draw = Random(0)
stories = "\n".join(" ".join(tell_story(draw).sentences) for _ in range(300))
print(stories[:400])

# %% [markdown]
# ## Cleaning
#
# Text from the wild has curly quotes, long dashes, HTML escapes, and letters that were decoded wrongly on the way
# (*mojibake*). A library, ftfy, repairs them. Five replacements follow: three kinds of dash become `-`, the ellipsis
# becomes three dots, the acute accent an apostrophe. `clean` does all of that and returns bytes in UTF-8.

# %%
for wild in ("“It’s late”", "a tea—no, two…", "Fish &amp; chips", "a cafÃ© in Paris"):
    print(f"{wild!r:24} becomes {clean(wild).decode()!r}")

assert clean("“It’s late”").decode() == '"It\'s late"'
assert clean("a cafÃ© in Paris").decode() == "a café in Paris"

# %% [markdown]
# ## Splitting
#
# Next the text is split into *words*, in two moves. First, runs of most punctuation marks get a blank on either side.
# Then come the rules for English of another library, spaCy: they know that `don't` is `do` and `n't`, and that the dot
# of `Mr.` belongs to it. Only then all letters are made small: the rules look at the capitals, the network never sees
# them.

# %%
splitter = Splitter()


def split(text):
    """Return the words of a line of text."""
    (parts,) = splitter.cut([clean(text).decode()])
    words, _, _ = splitter.split_together(parts)
    return list(words)


for line in ("Mr. Brown didn't ask (twice)!!", "It's 10 a.m., more or less..."):
    print(split(line))

assert split("Mr. Brown didn't ask (twice)!!") == ["mr.", "brown", "did", "n't", "ask", "(", "twice", ")", "!", "!"]

# %% [markdown]
# ## Merges
#
# There are too many words for each to have a number: names, misprints, words made up yesterday. There are few
# characters, but a text in characters is long. *Byte-pair encoding* lies between the two. It begins with characters.
# The last one of a word is marked, `</w>`, so that `art` in *art* and `art` in *party* can be told apart. Then, again
# and again, the pair of neighbours that stands side by side most often in the text is merged into one piece:
#
# $$(\text{left}, \text{right})^{*} = \operatorname*{arg\,max}_{(\text{left}, \text{right})} \sum_{\text{words } w}
# \operatorname{count}(w) \cdot \#\{\text{left, right side by side in } w\}$$
#
# The merges, in the order in which they were found, are the vocabulary. Here is the package's training, and then the
# same by hand.

# %%
counts = WordCounter().count(stories.split("\n"))
tokenizer = train_words(counts, merges=60)
merges = tokenizer.vocabulary.merges
print(f"{len(counts)} different words; the first ten merges:", *("+".join(pair) for pair in merges[:10]))


def characters(word):
    """Return a word in its first pieces: characters, the last one marked."""
    return [*word[:-1], word[-1] + WORD_END]


def join(pieces, pair):
    """Return the pieces with every occurrence of the pair merged, from the left."""
    joined = []
    for piece in pieces:
        if joined and (joined[-1], piece) == pair:
            joined[-1] += piece
        else:
            joined.append(piece)
    return joined


def count_pairs(spelled):
    """Return how often each pair stands side by side in the text, given how its words are spelled."""
    pairs = Counter()
    for word, pieces in spelled.items():
        for pair in pairwise(pieces):
            pairs[pair] += counts[word]
    return pairs


spelled = {word: characters(word) for word in counts}
for learned in merges:
    pairs = count_pairs(spelled)
    assert pairs[learned] == max(pairs.values()), f"{learned} is not the most frequent pair"
    spelled = {word: join(pieces, learned) for word, pieces in spelled.items()}

# %% [markdown]
# Each of the package's sixty merges was a most frequent pair when its turn came. (Of two that are equally frequent, a
# fixed rule takes one: the same text always gives the same vocabulary.)
#
# ## From a word to ids
#
# To encode a new word nothing is counted any more. It is spelled in characters, and of all pairs that stand in it the
# one that was learned *first* is merged, until none is left. Each piece that remains is a token, and its place in the
# vocabulary is its id.

# %%
rank = {pair: number for number, pair in enumerate(merges)}


def encode(word):
    """Return the pieces of a word, by hand."""
    pieces = characters(word)
    while known := [pair for pair in pairwise(pieces) if pair in rank]:
        pieces = join(pieces, min(known, key=rank.__getitem__))
    return pieces


tokens = tokenizer.vocabulary.tokens
for word in ("gardener", "garden", "the", "weather"):
    print(f"{word:10} {encode(word)}  ids {tokenizer.encode(word)}")

for word in filter(str.isalpha, counts):
    assert encode(word) == [tokens[id] for id in tokenizer.encode(word)], word

# %% [markdown]
# The vocabulary has an order, that of the released one: first the *unknown* token, then the characters from the most
# frequent to the rarest, the same characters ending a word, the merges, and last the newline.

# %%
letters = len({character for word in counts for character in word})
print(f"1 unknown + 2 x {letters} characters + {len(merges)} merges + 1 newline = {tokenizer.vocab_size} tokens")
assert tokenizer.vocab_size == 1 + 2 * letters + len(merges) + 1
assert (tokens[0], tokens[-1]) == ("<unk>", "\n" + WORD_END)
assert tokenizer.encode("π") == [0], "no story has this letter"

# %% [markdown]
# ## What newlines become
#
# White space is a border between words and nothing more, with one exception: white space that has a line end in it
# becomes one newline token, however many line ends there are. At the beginning and the end of a text it is dropped. So
# a novel keeps its paragraphs, and `decode` gives back a text that is readable, and not the very one that went in.

# %%
ids = tokenizer.encode("\nIt   rained.\n\n  \nTom laughed.\n")
print([tokens[id] for id in ids].count("\n" + WORD_END), "newline:", repr(tokenizer.decode(ids)))
assert tokenizer.decode(ids) == "it rained.\ntom laughed."

# %% [markdown]
# ## The other kind: bytes
#
# Today's models begin with the 256 bytes instead of characters. A blank is a byte like any other, so nothing is
# cleaned and nothing is lost; every text in every script is bytes, so nothing is unknown. The price: what is not
# English takes several tokens a letter, until merges for it are learned. The package has both kinds; the paper's is
# the default.

# %%
byte_tokenizer = train_bytes([stories], merges=60)
for text in ("The gardener", "the GARDENER", "π ≈ 3"):
    print(f"{text:14} words {tokenizer.encode(text)}\n{'':14} bytes {byte_tokenizer.encode(text)}")
    assert byte_tokenizer.decode(byte_tokenizer.encode(text)) == text

# %% [markdown]
# ## A picture: what merges buy
#
# The more merges, the fewer tokens a text takes, and the further a network sees that has a context of so many tokens
# (512 in the paper). The first merges help most. Once each word is one token, no merge helps any more: they never
# reach across a blank.

# %%
sizes = [1, 10, 30, 100, 300, 1000]
sample = stories[:20_000]
words = len(sample.split())
curves = {
    "words, the paper's kind": [train_words(counts, merges=size) for size in sizes],
    "bytes, today's kind": [train_bytes([stories], merges=size) for size in sizes],
}
figure, axes = plt.subplots(figsize=(6, 3.6))
for (name, made), mark in zip(curves.items(), "os", strict=True):
    axes.plot(sizes, [len(one.encode(sample)) / words for one in made], marker=mark, label=name)
axes.set(
    xscale="log", xlabel="merges learned", ylabel="tokens a word", ylim=0, title="The more merges, the fewer tokens"
)
axes.set_xticks(sizes, labels=map(str, sizes))
axes.minorticks_off()
axes.grid(alpha=0.3)
axes.legend()
plt.show()

# %% [markdown]
# ## Exercises
#
# In each, replace the `...` and run the cell. The answer is in the cell after it, which also checks yours, if there is
# one.
#
# **Exercise 1.** How many newline tokens does this text have?

# %% tags=["exercise"]
poem = "\n\nRoses are red,\n\n\nviolets are blue.\n \t \n"
my_newlines = ...

# %% tags=["answer"]
# One: what stands at the ends is dropped, and the three line ends in the middle are one newline.
newlines = tokenizer.encode(poem).count(tokenizer.newline_id)
assert newlines == 1
assert my_newlines in (..., newlines), "not yet: think of the ends of the text"

# %% [markdown]
# **Exercise 2.** The released vocabulary has 40,478 tokens, of which 40,000 are merges. How many characters does it
# know? Everything else that a text may hold is unknown to it.

# %% tags=["exercise"]
my_characters = ...

# %% tags=["answer"]
# One token is the unknown one, one is the newline, and each character has two.
released = (40_478 - 40_000 - 1 - 1) // 2
assert released == 238
assert 1 + 2 * released + 40_000 + 1 == 40_478
assert tokenizer.vocab_size - len(merges) - 2 == 2 * letters, "the small vocabulary has the same layout"
assert my_characters in (..., released), "not yet: each character has two tokens"

# %% [markdown]
# **Exercise 3.** Write the way back: from the ids of *one* line to its words. (Blanks go where the words end; leave
# the fine print, such as no blank before a comma, to the package.)


# %% tags=["exercise"]
def my_words(ids):
    return ...


# %% tags=["answer"]
def words_of(ids):
    """Return the words that the ids spell."""
    return "".join(tokens[id] for id in ids).split(WORD_END)[:-1]


line = "Emma was glad. Oscar did not know why."
ids = tokenizer.encode(line)
assert words_of(ids) == split(line)
assert tokenizer.decode(ids) == "emma was glad. oscar did not know why."
assert my_words(ids) in (..., words_of(ids)), "not yet: a piece with </w> ends a word"
