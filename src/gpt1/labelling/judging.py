"""Whether those who answer know more of the labels than their shares: else what they would flag is chance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from gpt1.base.wording import x100
from gpt1.tasks.assessment import Interval, wilson


@dataclass(frozen=True)
class Agreement:
    """How many labels of a table are what others would say, beside the commonest label."""

    rows: int
    agreed: int
    label: object  # the commonest
    commonest: int  # rows that have it

    @property
    def interval(self) -> Interval:
        """The 95 % interval of the share that is agreed with."""
        return wilson(self.agreed, self.rows)

    @property
    def may_be_chance(self) -> bool:
        """Whether it cannot be told from always saying the commonest label."""
        return self.interval[0] <= self.commonest / self.rows

    def in_words(self) -> str:
        """Return both shares in a line."""
        low, high = map(x100, self.interval)
        return (
            f"those who had not learned a row agree with {x100(self.agreed / self.rows):.1f} % of the labels (95 % "
            f"interval {low:.1f} to {high:.1f}), and '{self.label}' alone is {x100(self.commonest / self.rows):.1f} %"
        )


def agreement(labels: Sequence[object], answers: Sequence[object]) -> Agreement:
    """Return how far answers agree with labels."""
    label, count = Counter(labels).most_common(1)[0]
    agreed = sum(one == other for one, other in zip(labels, answers, strict=True))
    return Agreement(len(labels), agreed, label, count)
