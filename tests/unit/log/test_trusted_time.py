"""What is believed of a wall clock, state by state; all times in this file are made up."""

import pytest

from opentalos.log.trusted_time import BACK_FACTOR, STOP_MAX_MS, WINDOW_MS, LastSeen, TrustedTime
from opentalos.model.limits import LogLimits

START_MS = 1_700_000_000_000
DAY_MS, HOUR_S = 86_400_000, 3_600.0
LIMIT_MS = 300_000
LIMITS = LogLimits(clock_disagree_max_s=300.0, clock_confirm_s=HOUR_S)


class Machine:
    """Both clocks of one server, and the time it trusts."""

    def __init__(self, ahead_ms: int = 0) -> None:
        self.ahead_ms, self.passed_s, self.rate = ahead_ms, 0.0, 1.0
        self.time = TrustedTime(LIMITS, self.wall_ms, lambda: self.passed_s)

    @property
    def true_ms(self) -> int:
        return START_MS + round(self.passed_s * 1_000)

    def wall_ms(self) -> int:
        return START_MS + self.ahead_ms + round(self.passed_s * self.rate * 1_000)

    def run(self, seconds: float, every_s: float = 30.0) -> None:
        end_s = self.passed_s + seconds
        while self.passed_s < end_s:
            self.passed_s = min(end_s, self.passed_s + every_s)
            self.time.retention_ms()


def fresh(ahead_ms: int = 0) -> Machine:
    machine = Machine(ahead_ms)
    machine.time.begin(None, empty=True)
    return machine


def restarted(last: LastSeen, ahead_ms: int = 0) -> Machine:
    machine = Machine(ahead_ms)
    machine.time.begin(last, empty=False)
    return machine


def seen(*, ran_s: float = 0.0) -> LastSeen:
    return LastSeen(START_MS, START_MS, ran_s)


def test_an_agreeing_clock_is_followed() -> None:
    machine = fresh()
    for ahead_ms in (0, 10_000, 60_000, 250_000, -20_000):
        machine.ahead_ms = ahead_ms
        machine.run(60)
        assert machine.time.append_ms() == machine.wall_ms()
        assert machine.time.retention_ms() == machine.wall_ms()
    assert machine.time.doubt() == ""


@pytest.mark.parametrize("rate", [2.0, 0.5, 1.05])
def test_a_clock_of_a_wrong_rate_is_noticed_and_never_confirmed(rate: float) -> None:
    machine = fresh()
    machine.rate = rate
    machine.run(10 * HOUR_S)
    assert machine.time.retention_ms() is None
    machine.run(40 * HOUR_S)
    assert machine.time.retention_ms() is None


def test_many_small_steps_are_not_followed() -> None:
    machine = fresh()
    for _ in range(20):
        machine.ahead_ms += 200_000
        machine.run(30)
    assert machine.time.retention_ms() is None
    assert machine.time.disagreement_s > 3_000


def test_an_append_time_is_bounded_between_two_comparisons() -> None:
    machine = fresh()
    machine.ahead_ms = 2 * STOP_MAX_MS
    assert machine.time.append_ms() - machine.true_ms <= 0
    machine.ahead_ms = LIMIT_MS + WINDOW_MS
    assert machine.time.append_ms() == machine.wall_ms()
    machine.ahead_ms = -LIMIT_MS - 1
    assert machine.time.append_ms() == machine.true_ms


def test_a_corrected_clock_ends_the_doubt_at_once() -> None:
    machine = restarted(seen(), 8 * DAY_MS)
    assert machine.time.retention_ms() is None
    machine.run(HOUR_S / 2)
    machine.ahead_ms = 0
    assert machine.time.retention_ms() == machine.true_ms


def test_a_second_step_begins_the_confirmation_again() -> None:
    machine = restarted(seen(), 8 * DAY_MS)
    machine.run(HOUR_S - 60)
    machine.ahead_ms += DAY_MS
    machine.run(HOUR_S - 60)
    assert machine.time.retention_ms() is None
    machine.run(120)
    assert machine.time.retention_ms() == machine.wall_ms()


def test_going_back_takes_longer() -> None:
    machine = restarted(seen(), -8 * DAY_MS)
    machine.run(2 * HOUR_S)
    assert machine.time.retention_ms() is None
    assert machine.time.append_ms() == machine.true_ms
    machine.run(BACK_FACTOR * HOUR_S)
    assert machine.time.retention_ms() == machine.wall_ms()
    assert machine.time.append_ms() == machine.wall_ms()


def test_what_ran_before_counts_unless_the_clock_went_back() -> None:
    doubted = LastSeen(START_MS, START_MS + 8 * DAY_MS, HOUR_S - 60)
    later = restarted(doubted, 9 * DAY_MS)
    later.run(120)
    assert later.time.retention_ms() == later.wall_ms()
    earlier = restarted(doubted, 7 * DAY_MS)
    earlier.run(120)
    assert earlier.time.retention_ms() is None
    assert "believed in 58.0 min" in earlier.time.doubt()


def test_the_record_keeps_the_doubt() -> None:
    machine = restarted(seen(), 8 * DAY_MS)
    machine.run(1_800)
    last = machine.time.last_seen()
    assert last == LastSeen(machine.true_ms, machine.wall_ms(), 1_800.0)
    assert restarted(last, 8 * DAY_MS).time.retention_ms() is None


def test_two_clocks_that_agree_need_no_proof() -> None:
    machine = restarted(seen(), 8 * DAY_MS)
    machine.time.note_store(machine.wall_ms() + 1_000, 0.0)
    assert machine.time.retention_ms() == machine.wall_ms()


def test_a_server_that_disagrees_with_the_cluster_stamps_by_the_cluster() -> None:
    machine = fresh(8 * DAY_MS)
    machine.time.note_store(START_MS, 0.0)
    machine.run(40 * HOUR_S)
    assert machine.time.append_ms() == pytest.approx(machine.true_ms, abs=1)
    assert machine.time.retention_ms() is None
    assert machine.time.doubt() == (
        "the wall clock is 8.0 d ahead of the cluster's clock; correct this server's clock"
    )


def test_messages_stamped_in_doubt_count_from_its_end() -> None:
    machine = restarted(seen(), 2 * STOP_MAX_MS)
    machine.run(600)
    stamped_ms = machine.time.append_ms()
    assert stamped_ms == machine.true_ms
    assert machine.time.counted_ms(stamped_ms, machine.wall_ms()) is None
    machine.run(HOUR_S)
    now_ms = machine.wall_ms()
    assert machine.time.retention_ms() == now_ms
    assert machine.time.counted_ms(stamped_ms, now_ms) == now_ms
    assert machine.time.counted_ms(START_MS - 1, now_ms) is None
    again = restarted(machine.time.last_seen(), 2 * STOP_MAX_MS + 2 * 3_600_000)
    assert again.time.counted_ms(stamped_ms, now_ms) == now_ms


def test_a_crash_in_doubt_forgets_no_early_stamp() -> None:
    crashed = restarted(seen(), -8 * DAY_MS)
    last = crashed.time.last_seen()  # written before the first put
    crashed.run(20)
    stamped_ms = crashed.time.append_ms()
    again = restarted(last, 60_000)
    now_ms = again.wall_ms()
    assert again.time.retention_ms() == now_ms
    assert again.time.counted_ms(stamped_ms, now_ms) == now_ms


def test_times_in_the_future_count_from_now() -> None:
    machine = fresh()
    now_ms = machine.wall_ms()
    assert machine.time.counted_ms(now_ms + LIMIT_MS, now_ms) is None
    assert machine.time.counted_ms(now_ms + LIMIT_MS + 1, now_ms) == now_ms
