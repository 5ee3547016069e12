"""Asked to stop."""

from __future__ import annotations

import signal
import threading
import time

import pytest

from gpt1.training.signals import StopRequests


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_is_remembered_and_a_ctrl_c_after_it_interrupts(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), StopRequests() as stop:
        assert not stop
        signal.raise_signal(number)
        assert stop
        assert (stop.signal, stop.out_of_time) == (number, False)
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(number) == before


def test_a_scheduler_may_ask_twice() -> None:
    with StopRequests() as stop:
        for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGHUP):
            signal.raise_signal(number)
        assert stop.signal == signal.SIGTERM


def test_handlers_are_put_back_whatever_happens() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with pytest.raises(ZeroDivisionError), StopRequests():
        assert signal.getsignal(signal.SIGTERM) not in before
        raise ZeroDivisionError
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_the_end_of_the_time_is_a_wish_to_stop_without_a_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with StopRequests(minutes=2) as stop:
        now += 119
        assert not stop
        now += 1
        assert stop
        assert (stop.signal, stop.out_of_time) == (None, True)


def test_without_a_budget_time_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 1e12)
    with StopRequests() as stop:
        assert not stop


def test_in_another_thread_signals_are_left_alone() -> None:
    before = signal.getsignal(signal.SIGTERM)
    seen: list[object] = []

    def work() -> None:
        with StopRequests(minutes=0) as stop:
            seen.extend([bool(stop), signal.getsignal(signal.SIGTERM)])

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [True, before]
