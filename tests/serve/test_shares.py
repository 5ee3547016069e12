"""Who has fewest connections takes the next."""

from __future__ import annotations

from gpt1.base.parallel import Context
from gpt1.serve.shares import NOT_THERE, ConnectionShare, shared_counts


def test_who_has_fewest_takes_the_next_and_who_is_not_there_is_not_waited_for() -> None:
    counts = shared_counts(Context(), 3)
    first, second, third = (ConnectionShare(counts, place) for place in range(3))
    assert list(counts) == [NOT_THERE] * 3
    assert first.has_fewest(5)
    assert second.has_fewest(4)
    assert not first.has_fewest(5)
    assert first.has_fewest(4)
    third.has_fewest(0)
    assert not second.has_fewest(1)
    third.leave()
    assert second.has_fewest(1)


def test_a_process_by_itself_takes_all() -> None:
    alone = ConnectionShare()
    assert all(alone.has_fewest(connections) for connections in (0, 100, 3))


def test_other_processes_see_the_same_counts() -> None:
    counts = shared_counts(Context(), 2)
    other = Context().Process(target=ConnectionShare(counts, 1).has_fewest, args=(7,))
    other.start()
    other.join()
    assert list(counts) == [NOT_THERE, 7]
