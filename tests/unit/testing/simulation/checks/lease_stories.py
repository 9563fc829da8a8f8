"""Hand-made histories of named leases; see ``stories``."""

from tests.unit.testing.simulation.checks.stories import Story
from tests.unit.testing.simulation.checks.tale import Tale

TTL_S = 10.0


def take(tale: Tale, holder: str, epoch: int, *, ttl_s: float = TTL_S) -> None:
    tale.ok(tale.begin("take-lease", lease="l", holder=holder, ttl_s=ttl_s), epoch=epoch)


def renew(tale: Tale, holder: str, epoch: int, *, ttl_s: float = TTL_S) -> None:
    renewal = tale.begin("renew-lease", lease="l", holder=holder, ttl_s=ttl_s, epoch=epoch)
    tale.ok(renewal, epoch=epoch)


def release(tale: Tale, holder: str, epoch: int) -> None:
    tale.ok(tale.begin("release-lease", lease="l", holder=holder, epoch=epoch))


def write(tale: Tale, holder: str, epoch: int) -> None:
    tale.ok(tale.begin("lease-write", lease="l", holder=holder, epoch=epoch))


def handed_over(tale: Tale) -> None:
    take(tale, "a", 1)
    write(tale, "a", 1)
    renew(tale, "a", 1)
    tale.tick(TTL_S)
    take(tale, "b", 2)
    write(tale, "b", 2)


def released_and_taken(tale: Tale) -> None:
    take(tale, "a", 1)
    release(tale, "a", 1)
    take(tale, "b", 2)


def same_epoch_after_a_release(tale: Tale) -> None:
    take(tale, "a", 1)
    release(tale, "a", 1)
    take(tale, "b", 1)


def lower_epoch_later(tale: Tale) -> None:
    take(tale, "a", 5)
    tale.tick(TTL_S)
    take(tale, "b", 4)


def asked_again_by_the_same_holder(tale: Tale) -> None:
    take(tale, "a", 1)
    take(tale, "a", 1)


def renewed_after_a_takeover(tale: Tale) -> None:
    take(tale, "a", 1, ttl_s=1.0)
    take(tale, "b", 2, ttl_s=1.0)
    renew(tale, "a", 1, ttl_s=1.0)


def taken_too_early(tale: Tale) -> None:
    take(tale, "a", 1)
    take(tale, "b", 2)


def taken_too_early_after_a_renewal(tale: Tale) -> None:
    take(tale, "a", 1)
    tale.tick(TTL_S - 4)
    renew(tale, "a", 1)
    tale.tick(4)
    take(tale, "b", 2)


def written_late(tale: Tale) -> None:
    handed_over(tale)
    write(tale, "a", 1)


def written_late_but_first(tale: Tale) -> None:
    take(tale, "a", 1)
    tale.tick(TTL_S)
    take(tale, "b", 2)
    write(tale, "a", 1)
    write(tale, "b", 2)


CASES: dict[str, tuple[list[Story], list[Story]]] = {
    "lease-epoch-repeated": (
        [same_epoch_after_a_release, lower_epoch_later],
        [released_and_taken, asked_again_by_the_same_holder],
    ),
    "stale-lease-renewal": ([renewed_after_a_takeover], [handed_over]),
    "two-lease-holders": (
        [taken_too_early, taken_too_early_after_a_renewal],
        [handed_over, released_and_taken],
    ),
    "stale-lease-write": ([written_late], [written_late_but_first]),
    "stuck-lease": ([lambda tale: tale.note("stuck-lease", text="nobody got it")], [handed_over]),
}
