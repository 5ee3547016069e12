"""How the world is told: sentence forms with gaps, by what they tell.

Gaps: {S} and {s} the hero as subject (first word or inside), {o} as object, {P} and {p} as owner, each by name or by
pronoun; {h} the owner's pronoun; {x} and {y} things with articles; {G} and {g} a helper; the rest are a trade's words.
The second half of each pair, `RARE`, is kept out of labelled examples but for the set `other`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Forms:
    """The ways of telling one thing: those that labelled training uses, and those it never does."""

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
