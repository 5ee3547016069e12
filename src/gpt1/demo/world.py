"""What there is in the world of the demo, and how it is told: people, trades and their things; sentences with gaps.

Values only. A noun stands with its article, an activity as a verb and as what
follows "loved", so that no sentence has to guess at grammar.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain


@dataclass(frozen=True)
class Person:
    """Somebody a story can be about."""

    name: str
    he: str
    him: str
    his: str


@dataclass(frozen=True)
class Trade:
    """What a person can live for."""

    a_job: str  # "a sailor"
    doing: str  # "sailing"
    where: str  # "at the harbour"
    things: tuple[str, ...]  # "an oar"

    @property
    def job(self) -> str:
        """The word for a person of this trade, without its article."""
        return self.a_job.split(" ", 1)[1]


@dataclass(frozen=True)
class Weather:
    """A kind of day: how it is told, and what is seen of it later."""

    told: tuple[str, ...]
    seen: tuple[str, ...]


_COUPLES = (
    ("Anna", "Peter"),
    ("Emma", "Simon"),
    ("Julia", "Leo"),
    ("Clara", "Tom"),
    ("Sophie", "Paul"),
    ("Laura", "Jack"),
    ("Alice", "Henry"),
    ("Helen", "Oscar"),
    ("Martha", "Martin"),
    ("Ruth", "George"),
    ("Nora", "Adam"),
    ("Grace", "Felix"),
    ("Lucy", "Hugo"),
    ("Ellen", "Max"),
    ("Rosa", "Daniel"),
    ("Jane", "Karl"),
    ("Kate", "John"),
    ("Mary", "Ben"),
    ("Sarah", "David"),
    ("Ida", "Otto"),
)

# Women and men in turn, so that any run of them is balanced.
PEOPLE = tuple(
    chain.from_iterable(
        (Person(woman, "she", "her", "her"), Person(man, "he", "him", "his")) for woman, man in _COUPLES
    )
)

TRADES = (
    Trade("a sailor", "sailing", "at the harbour", ("an oar", "an anchor", "a rope", "a compass", "a fishing net")),
    Trade("a baker", "baking", "in the bakery", ("a whisk", "an apron", "a loaf", "a sieve", "a cake")),
    Trade("a painter", "painting", "in the studio", ("a brush", "an easel", "a canvas", "a palette", "a portrait")),
    Trade("a gardener", "gardening", "in the garden", ("a spade", "a rake", "a rose", "a hoe", "a flowerpot")),
    Trade("a musician", "making music", "in the theatre", ("a violin", "a flute", "a drum", "a trumpet", "a guitar")),
    Trade("a carpenter", "carving wood", "in the workshop", ("a hammer", "a saw", "a nail", "a chisel", "a plank")),
    Trade(
        "a doctor", "healing people", "in the hospital", ("a bandage", "a syringe", "a pill", "a plaster", "a crutch")
    ),
    Trade("a teacher", "teaching", "at the school", ("a pencil", "a notebook", "a ruler", "an atlas", "a dictionary")),
    Trade("a tailor", "sewing", "in the dress shop", ("a needle", "a thimble", "a button", "a ribbon", "a zip")),
    Trade("a climber", "climbing", "in the mountains", ("a helmet", "a harness", "a hook", "a lantern", "a backpack")),
)

# As somebody's: {h} is "her" or "his".
HELPERS = (
    "{h} uncle",
    "{h} grandmother",
    "{h} cousin",
    "a neighbour",
    "an old friend",
    "a stranger",
    "the postman",
    "the mayor",
)

WEATHER = (
    Weather(("It rained all morning.", "Rain was falling."), ("The streets were wet.", "Water ran down the roofs.")),
    Weather(("The sun was shining.", "It was a sunny day."), ("Children played outside.", "The air was warm.")),
    Weather(("It had snowed.", "Snow lay everywhere."), ("The roofs were white.", "The lake was frozen.")),
    Weather(("The wind was blowing.", "A storm had come."), ("Leaves flew through the air.", "The trees were bent.")),
    Weather(("The fog was thick.", "The day was grey."), ("The lamps were lit.", "Nobody saw the church tower.")),
)

SEEN_PEOPLE = 28  # the first so many appear in labelled training; the others only in the text and in the set `other`


def is_held_out(person: int, trade: int) -> bool:
    """Say whether a person with this trade is kept for dev and test: nothing that is learned from tells of the two."""
    return (person + trade) % len(TRADES) < 2


# ---- how it is told ----

# Gaps: {S} and {s} the hero as subject (first word or inside), {o} as object, {P} and {p} as owner, each by name or by
# pronoun; {h} the owner's pronoun; {x} and {y} things with articles; {G} and {g} a helper; the rest: a trade's words.


@dataclass(frozen=True)
class Forms:
    """The ways of telling one thing: those that labelled training uses, and those that only the set `other` has."""

    common: tuple[str, ...]
    rare: tuple[str, ...]

    @property
    def all(self) -> tuple[str, ...]:
        """Every way of telling it."""
        return self.common + self.rare


# What tells a person's trade, by the kind of word that tells it.
ASPECTS = {
    "job": Forms(
        (
            "{S} was {a_job}.",
            "{S} worked as {a_job}.",
            "People knew {o} as a good {job}.",
            "Everyone called {o} the {job}.",
        ),
        ("{S} made a living as {a_job}.", "There was no better {job} than {s}."),
    ),
    "doing": Forms(
        (
            "{S} loved {doing}.",
            "{S} spent every day {doing}.",
            "{S} talked about nothing but {doing}.",
            "To {o} nothing was better than {doing}.",
        ),
        ("{S} dreamed of {doing}.", "{P} great love was {doing}."),
    ),
    "where": Forms(
        (
            "{S} worked {where}.",
            "Most days {s} was {where}.",
            "{S} knew everyone {where}.",
            "You could always find {o} {where}.",
        ),
        ("{S} felt at home {where}.", "{P} mornings began {where}."),
    ),
    "things": Forms(
        (
            "{S} owned {x} and {y}.",
            "{S} never went out without {x}.",
            "On {p} table lay {x} and {y}.",
            "{S} took {x} along.",
        ),
        ("{P} bag held {x} and {y}.", "{S} was often seen with {x}."),
    ),
}

GIFTS = Forms(
    (
        "{G} gave {o} {x}.",
        "{S} got {x} from {g}.",
        "{S} found {x} behind the door.",
        "{G} brought {o} {x}.",
        "One day {s} was given {x}.",
    ),
    ("What {s} got from {g} was {x}.", "In the box for {o} was {x}."),
)

# After a gift of the hero's own trade, or of another one.
GOOD = Forms(
    (
        "{S} was happy.",
        "{S} smiled.",
        "That made {o} glad.",
        "It was a good day for {o}.",
        "It was just what {s} needed.",
        "Happily {s} took it home.",
    ),
    ("{S} went home with a light heart.", "{S} was delighted."),
)
BAD = Forms(
    (
        "{S} was sad.",
        "{S} sighed.",
        "That made {o} sorry.",
        "It was a bad day for {o}.",
        "It was not what {s} needed.",
        "Sadly {s} put it away.",
    ),
    ("{S} went home with a heavy heart.", "{S} was disappointed."),
)

# Between a gift and how it was received.
PAUSES = Forms(
    ("Then {s} went home.", "Then evening came.", "So the day ended for {o}.", "{S} looked at it for a while."),
    ("{S} closed the door.", "{S} thought about it all evening."),
)

# Two people, of whom something is told afterwards.
MEETINGS = Forms(
    ("The {a} met the {b}.", "The {a} talked to the {b}.", "One day the {a} helped the {b}."),
    ("The {a} sat down next to the {b}.",),
)
LATER = ("Everybody knew that", "People said that", "It was no secret that", "Of course", "The mayor told us that")
