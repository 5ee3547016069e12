"""Who is there, who is missing, who does otherwise: told by rank and machine."""

from __future__ import annotations

import platform

import pytest

from gpt1.base.errors import SettingError
from gpt1.training.roll_call import LostRank, RollCall
from tests.runs.together import processes, together

HOST = platform.node()
AT_ONCE = 0.0  # minutes


def test_each_hears_what_all_tell_however_often_they_tell() -> None:
    calls = processes(3)
    for what in ("first", "second", "second"):
        heard = together(calls, lambda call, what=what: call.gather(what, {"what": what}))
        assert heard == [[{"what": what}] * 3] * 3


def test_who_does_not_come_is_told_by_rank_and_machine() -> None:
    calls = processes(4)
    together(calls, RollCall.begin)
    for call in calls:
        call.minutes = AT_ONCE
    told = [together([call], lambda call: call.gather("before the first step", None)) for call in (calls[0], calls[2])]
    assert f"process 0 cannot go on: processes 1 to 3 of 4 (on {HOST}) did not come within 0 minutes" in str(told[0])
    assert f"process 2 cannot go on: processes 1, 3 of 4 (on {HOST}) did not come within 0 minutes" in str(told[1])
    assert "wait (before the first step); up to the last checkpoint nothing is lost" in str(told[1])


def test_who_never_was_there_is_told_by_rank_alone() -> None:
    (call, *_) = processes(2, AT_ONCE)
    with pytest.raises(LostRank, match=r"^process 0 cannot go on: process 1 of 2 did not come within 0 minutes"):
        call.begin()


def test_each_difference_is_told_by_name_and_rank_in_all_processes() -> None:
    calls = processes(5)
    together(calls, RollCall.begin)
    same = {"the version of torch": "2.13.0", "training.seed": 0, "the text": "a" * 64}
    facts = [same, same, same, same | {"the version of torch": "2.12.1"}, same | {"training.seed": 7, "the text": "b"}]
    told = together(calls, lambda call: call.agree(facts[calls.index(call)]))
    assert all(isinstance(one, SettingError) for one in told)
    assert len(set(map(str, told))) == 1
    on = f"(on {HOST})"
    assert str(told[0]).splitlines() == [
        "the processes of this run do not agree:",
        f"- the version of torch is 2.13.0 in processes 0 to 2, 4 of 5 {on}, and 2.12.1 in process 3 of 5 {on}",
        f"- training.seed is 0 in processes 0 to 3 of 5 {on}, and 7 in process 4 of 5 {on}",
        f"- the text is {'a' * 20}… in processes 0 to 3 of 5 {on}, and b in process 4 of 5 {on}",
    ]


def test_who_agree_go_on_and_a_fact_that_one_does_not_have_is_a_difference() -> None:
    calls = processes(2)
    assert together(calls, lambda call: call.agree({"training.seed": 0})) == [None, None]
    told = together(calls, lambda call: call.agree({"finetuning.folds": 5} if call is calls[1] else {}))
    assert "- finetuning.folds is not there in process 0 of 2, and 5 in process 1 of 2" in str(told[0])


def test_those_who_are_left_tell_who_is_gone_and_what_it_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpt1.training.roll_call.GRACE", 0.0)
    calls = processes(3)
    together(calls, RollCall.begin)
    calls[2].leave("corpus does not exist\nand more of that")
    (told,) = together(
        calls[:1], lambda call: call.lost(RuntimeError("[/gloo/pair.cc:537] Connection closed. This is typical.\nmore"))
    )
    assert str(told) == (
        f"process 0 cannot go on: process 2 of 3 (on {HOST}) ended: corpus does not exist, and process 1 of 3 (on "
        f"{HOST}) is gone, or hangs; up to the last checkpoint nothing is lost, and the same again with `resume=True` "
        "goes on (Connection closed)"
    )


def test_where_nobody_is_gone_it_is_the_network() -> None:
    calls = processes(2)
    told = together(calls, lambda call: call.lost(RuntimeError("reset")))
    assert all("the processes are all there, but cannot reach each other" in str(one) for one in told)


def test_who_said_that_it_ends_is_not_waited_for() -> None:
    calls = processes(2)
    together(calls, RollCall.begin)
    calls[1].leave("no room")
    (told,) = together(calls[:1], lambda call: call.gather("before the first step", None))
    assert f"process 1 of 2 (on {HOST}) ended: no room; up to" in str(told)


def test_threads_tell_each_other_other_things_and_those_of_the_next_training_others_again() -> None:
    calls = processes(2)
    assert together(calls, lambda call: call.gather("a folder", "own")) == [["own"] * 2] * 2
    for what in ("of the first training", "of the second"):
        beside = [call.beside("checkpoints") for call in calls]
        heard = together(beside, lambda call, what=what: call.gather("a folder", what))
        assert heard == [[what] * 2] * 2
