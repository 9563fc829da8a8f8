"""Progress on a terminal, and nowhere else."""

import io

from opentalos.cli.output.progress import SHOW_AFTER_S, Elapsed


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_time_of_a_long_step_is_shown_and_cleared() -> None:
    stream, seconds = Terminal(), iter([10.0, 12.0, 13.0])
    pauses: list[float] = []

    def wait(pause_s: float) -> bool:
        pauses.append(pause_s)
        return len(pauses) == 3

    with Elapsed("compacting t", stream=stream, clock=lambda: next(seconds), wait=wait):
        pass
    assert pauses == [SHOW_AFTER_S, 1.0, 1.0]
    clear = "\r\033[K"
    assert stream.getvalue() == f"{clear}compacting t: 2 s{clear}compacting t: 3 s{clear}"


def test_a_short_step_shows_nothing() -> None:
    stream = Terminal()
    with Elapsed("compacting t", stream=stream, wait=lambda _: True):
        pass
    assert stream.getvalue() == ""


def test_without_a_terminal_there_is_no_progress() -> None:
    stream = io.StringIO()
    with Elapsed("compacting t", stream=stream, wait=lambda _: False):
        pass
    assert stream.getvalue() == ""
