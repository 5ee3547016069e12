"""What there is in the world of the demo: people, trades and their things, helpers, weather.

Values only; how they are told is in `forms.py`. A noun stands with its article, an activity as a verb and as what
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
