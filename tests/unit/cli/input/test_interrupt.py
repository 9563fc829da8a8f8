"""Signals that ask a command to end are like Ctrl-C while it has other programs to end."""

import os
import signal

import pytest

from opentalos.cli.input.interrupt import ended_like_ctrl_c


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_request_to_end_is_a_keyboard_interrupt(number: signal.Signals) -> None:
    found = signal.signal(number, signal.SIG_DFL)  # the run itself may ignore it
    try:
        with pytest.raises(KeyboardInterrupt), ended_like_ctrl_c():
            os.kill(os.getpid(), number)
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, found)


def test_a_program_under_nohup_keeps_running_when_its_terminal_closes() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with ended_like_ctrl_c():
            os.kill(os.getpid(), signal.SIGHUP)
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
