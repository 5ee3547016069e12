"""Stories of the world: a hidden state, and many ways to tell it.

A hero lives for one trade. Somebody gives the hero a thing; where it belongs to the trade the hero is glad, else sorry,
perhaps sentences later. A trade is never told to decide a mood: the reader finds out. Everything is drawn from the
`random.Random` that is given, and from nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random

from gpt1.demo.world import (
    ASPECTS,
    BAD,
    GIFTS,
    GOOD,
    HELPERS,
    LATER,
    MEETINGS,
    PAUSES,
    PEOPLE,
    TRADES,
    WEATHER,
    Forms,
    Person,
    Trade,
    is_held_out,
)

_WORD = re.compile(r"[a-z']+")
SHARE_OF_MEETINGS = 0.15  # of the stories
BRIEF_DAYS = 0.9  # of a hero's days: told in few words, so that what belongs together stands together
RUN = 8  # words in a row by which a text is known again

Run = tuple[str, ...]
Choice = Callable[[Forms], tuple[str, ...]]


def every_form(forms: Forms) -> tuple[str, ...]:
    """Tell as the text to read does: in any way there is."""
    return forms.all


def common_forms(forms: Forms) -> tuple[str, ...]:
    """Tell as labelled training does."""
    return forms.common


def rare_forms(forms: Forms) -> tuple[str, ...]:
    """Tell as labelled training never does."""
    return forms.rare


@dataclass
class Teller:
    """Tells of one hero, sentence by sentence: by name first, later by name or pronoun."""

    draw: Random
    person: Person
    choice: Choice = every_form
    introduced: bool = False
    told: set[str] = field(default_factory=set)  # things, so that none is named twice

    def trade(self, trade: Trade, aspect: str) -> str:
        """Tell the hero's trade by one of its aspects."""
        return self.trades((trade,), aspect)[0]

    def trades(self, trades: Sequence[Trade], aspect: str) -> list[str]:
        """Tell each of several trades by one aspect and in one form, as if only one of them was told."""
        form, by_name = self.draw.choice(self.choice(ASPECTS[aspect])), self._by_name()
        told = []
        for trade in trades:
            x, y = self.things(trade, 2)
            words = {"a_job": trade.a_job, "job": trade.job, "doing": trade.doing, "where": trade.where}
            told.append(self.say(form, by_name=by_name, x=x, y=y, **words))
        return told

    def portrait(self, trade: Trade, aspects: Collection[str]) -> list[str]:
        """Tell the hero's trade by several aspects."""
        return [self.trade(trade, aspect) for aspect in aspects]

    def gift(self, trade: Trade) -> str:
        """Tell that the hero was given a thing of this trade."""
        helper = self.draw.choice(HELPERS).format(h=self.person.his)
        form = self.draw.choice(self.choice(GIFTS))
        return self.say(form, x=self.things(trade, 1)[0], g=helper, G=_capital(helper))

    def mood(self, good: bool) -> str:
        """Tell how the hero took it."""
        return self.say(self.draw.choice(self.choice(GOOD if good else BAD)))

    def pause(self) -> str:
        """Tell something that says nothing of how it was taken."""
        return self.say(self.draw.choice(self.choice(PAUSES)))

    def things(self, trade: Trade, count: int) -> list[str]:
        """Draw things of a trade that were not named before, as far as there are any."""
        fresh = [thing for thing in trade.things if thing not in self.told]
        return self.draw.sample(fresh if len(fresh) >= count else trade.things, count)

    def say(self, form: str, *, by_name: bool | None = None, **words: str) -> str:
        """Fill a form's gaps."""
        person = self.person
        if by_name is None:
            by_name = self._by_name()
        if by_name:
            names = {"s": person.name, "S": person.name, "o": person.name, "p": f"{person.name}'s"}
        else:
            names = {"s": person.he, "S": _capital(person.he), "o": person.him, "p": person.his}
        self.introduced = self.introduced or any(gap in form for gap in ("{S}", "{s}", "{o}", "{P}", "{p}"))
        self.told.update(words[gap] for gap in ("x", "y") if f"{{{gap}}}" in form)
        return form.format(**names, P=_capital(names["p"]), h=person.his, **words)

    def _by_name(self) -> bool:
        return not self.introduced or self.draw.random() < 0.4


def other_trade(draw: Random, trade: int) -> int:
    """Draw a trade that is not this one."""
    return (trade + draw.randrange(1, len(TRADES))) % len(TRADES)


def some_hero(draw: Random, people: Collection[int], held_out: bool) -> tuple[int, int]:
    """Draw a trade, then a person who may have it: so trades are equally frequent, whoever is allowed."""
    trade = draw.randrange(len(TRADES))
    return draw.choice([person for person in people if is_held_out(person, trade) == held_out]), trade


def hero_name(person: int, trade: int) -> str:
    """Return what a person with a trade is called in lists: "Anna, sailor"."""
    return f"{PEOPLE[person].name}, {TRADES[trade].job}"


# ---- the text to read ----


@dataclass
class Page:
    """Sentences one after another, in which no run of words stands that is kept back."""

    kept_back: Collection[Run] = frozenset()
    sentences: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    redrawn: int = 0
    hero: str | None = None

    def add(self, tell: Callable[[], list[str]]) -> None:
        """Add what `tell` tells, told anew as often as it, with the words before it, has a run that is kept back."""
        while True:
            told = tell()
            before = self.words[1 - RUN :]
            new = words_of(" ".join(told))
            if not any(run in self.kept_back for run in runs([*before, *new])):
                self.sentences += told
                self.words = [*before, *new]
                return
            self.redrawn += 1


def tell_story(draw: Random, kept_back: Collection[Run] = frozenset()) -> Page:
    """Tell one story of the text to read: some days of a hero, or now and then a meeting of two people."""
    page = Page(kept_back)
    if draw.random() < SHARE_OF_MEETINGS:
        page.add(lambda: tell_meeting(draw))
        return page
    person, trade = some_hero(draw, range(len(PEOPLE)), held_out=False)
    page.hero = hero_name(person, trade)
    teller = Teller(draw, PEOPLE[person])
    for _ in range(draw.randint(3, 6)):
        page.add(lambda: _day(draw, teller, trade))
    return page


def _day(draw: Random, teller: Teller, trade: int) -> list[str]:
    """Tell a day: who the hero is, what was given, how it was taken; some days at leisure, with weather and pauses."""
    teller.told.clear()
    aspects = draw.sample(list(ASPECTS), 3)
    told = [teller.trade(TRADES[trade], aspects[0])]
    if draw.random() < BRIEF_DAYS:
        return told + _given(draw, teller, trade)
    weather = draw.choice(WEATHER)
    told += [draw.choice(weather.told), teller.trade(TRADES[trade], aspects[1])]
    told += _given(draw, teller, trade, pauses=True)
    told.append(draw.choice(weather.seen))
    return told


def _given(draw: Random, teller: Teller, trade: int, *, pauses: bool = False) -> list[str]:
    fits = draw.random() < 0.5
    told = [teller.gift(TRADES[trade if fits else other_trade(draw, trade)])]
    told += [teller.pause()] if pauses else []
    return [*told, teller.mood(fits)]


# ---- two people ----


@dataclass(frozen=True)
class Meeting:
    """Two people known by their trades, and the pronoun that both of them have."""

    trades: tuple[Trade, Trade]
    pronoun: str


def some_meeting(draw: Random, held_out: bool) -> Meeting:
    """Draw two trades whose people are kept for tests, or are not."""
    while True:
        one, other = draw.sample(range(len(TRADES)), 2)
        if meet_in_tests(one, other) == held_out:
            return Meeting((TRADES[one], TRADES[other]), draw.choice(("she", "he")))


def meet_in_tests(one: int, other: int) -> bool:
    """Say whether people of these trades meet in tests only."""
    return (one + other) % 5 == 0


def say_meeting(draw: Random, meeting: Meeting, choice: Choice) -> str:
    """Tell who met."""
    one, other = meeting.trades
    return draw.choice(choice(MEETINGS)).format(a=one.job, b=other.job)


def say_later(draw: Random, trade: Trade, who: str, choice: Choice) -> str:
    """Tell something that fits a trade; `who` stands in the place of the person."""
    aspect = draw.choice([name for name in ASPECTS if name != "job"])
    forms = [form for form in choice(ASPECTS[aspect]) if form.startswith("{S} ")]
    told = f"{draw.choice(LATER)} {who} {draw.choice(forms).removeprefix('{S} ')}"
    x, y = draw.sample(trade.things, 2)
    return told.format(x=x, y=y, doing=trade.doing, where=trade.where)


def tell_meeting(draw: Random) -> list[str]:
    """Tell of two people who met: this and that of the one or the other."""
    meeting = some_meeting(draw, held_out=False)
    told = [say_meeting(draw, meeting, every_form)]
    for _ in range(draw.randint(2, 4)):
        trade = draw.choice(meeting.trades)
        who = meeting.pronoun if draw.random() < 0.2 else f"the {trade.job}"
        told.append(say_later(draw, trade, who, every_form))
    return told


def words_of(text: str) -> list[str]:
    """Return the words of a text, whatever its case and punctuation."""
    return _WORD.findall(text.lower())


def runs(words: Sequence[str]) -> Iterator[Run]:
    """Return the runs of `RUN` words in a row."""
    return zip(*(words[place:] for place in range(RUN)), strict=False)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
