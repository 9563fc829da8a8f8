"""Why a consumer group does not move: a pure decision on what its coordinator knows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from opentalos.group.state import CHURN_S

IDLE_S: Final = 30.0  # a worker that commits nothing for this time is stuck, or slow
GRANTS_MAX: Final = 3  # of one partition within CHURN_S; more are a loop
PARTITIONS_SHOWN_MAX: Final = 100


class State(StrEnum):
    """Of the group as a whole."""

    CAUGHT_UP = "caught_up"
    MOVING = "moving"
    PARTLY_STUCK = "partly_stuck"  # some partitions move, others do not
    STUCK = "stuck"
    UNKNOWN = "unknown"  # no partition could be asked


class Level(StrEnum):
    """How bad a reason is."""

    ERROR = "error"  # messages are not processed because of it
    WARNING = "warning"
    INFO = "info"


class Code(StrEnum):
    """The reasons, in the order in which they are listed."""

    DAMAGED = "damaged"
    SERVER_UNREACHABLE = "server_unreachable"
    NO_WORKERS = "no_workers"
    REBALANCING = "rebalancing"
    POSITION_EXPIRED = "position_expired"
    POSITION_BEYOND_END = "position_beyond_end"
    NOT_HELD = "not_held"
    THROTTLED = "throttled"
    NOT_READING = "not_reading"
    NOT_COMMITTING = "not_committing"
    MOVING = "moving"
    CAUGHT_UP = "caught_up"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    """A partition as the group's coordinator sees it.

    ``start`` and ``next``: offsets of the log. ``idle_s``: at least so long without a commit or a
    grant. ``grants``: to another worker within ``CHURN_S``. ``fetches``: of all readers lately;
    None: not known. ``unreachable``: why its server could not be asked; empty: it was. ``damage``:
    why nobody knows where its log ends; empty: that is known.
    """

    partition: int
    worker: str = ""
    checkpoint: int = -1
    start: int = 0
    next: int = 0
    idle_s: float = 0.0
    grants: int = 0
    fetches: int | None = None
    unreachable: str = ""
    damage: str = ""

    @property
    def lag(self) -> int:
        """Retained messages after the checkpoint."""
        return max(0, self.next - max(self.checkpoint + 1, self.start))


class Delay(NamedTuple):
    """A rate quota that is used up."""

    name: str
    limit: int
    unit: str
    wait_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """A group. ``workers``: with a live lease. ``lag_per_s``: how its lag changes; None: unknown.
    ``fetches_s``: the time in which ``fetches`` were counted. ``unremarkable``: further partitions,
    which were read to their end and do not change hands all the time."""

    partitions: Sequence[PartitionView]
    workers: int
    delays: Sequence[Delay] = ()
    lag_per_s: float | None = None
    fetches_s: float = 0.0
    unremarkable: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One reason: what it is, in how many partitions, and what to do."""

    code: Code
    level: Level
    partitions: Sequence[int] = ()  # the first of them
    partitions_count: int = 0
    text: str
    advice: str = ""
    figures: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The most important reason is first. ``lag``: None: a partition is damaged."""

    state: State
    lag: int | None
    workers: int
    reasons: Sequence[Reason]


def explain(view: GroupView) -> Explanation:
    """Reasons with their numbers; each partition with lag is in one of them at least."""
    known = [part for part in view.partitions if not (part.unreachable or part.damage)]
    lag = sum(part.lag for part in known)
    damaged = _damaged(view)
    reasons = [*damaged, *_unreachable(view)]
    reasons += [*_workers(view, known), *_churn(known), *_positions(known)]
    behind = [part for part in known if part.lag]
    # A partition whose position is not in the log needs no other reason.
    held = [part for part in behind if part.worker and not (_expired(part) or _beyond(part))]
    if view.workers:
        reasons += _not_held([part for part in behind if not part.worker])
    if held:
        reasons += _delays(view)
    idle = [part for part in held if part.idle_s >= IDLE_S]
    reasons += [*_not_reading(idle, view.fetches_s), *_not_committing(idle)]
    moving = [part for part in held if part.idle_s < IDLE_S]
    reasons += _moving(moving, view.lag_per_s)
    well = len(known) + view.unremarkable
    if well and not lag:
        reasons.append(_caught_up(well))
    order = {code: number for number, code in enumerate(Code)}
    reasons.sort(key=lambda reason: order[reason.code])
    state = _state(view, lag, moving=bool(moving), reasons=reasons)
    whole = None if damaged else lag
    return Explanation(state=state, lag=whole, workers=view.workers, reasons=reasons)


def _state(view: GroupView, lag: int, *, moving: bool, reasons: Sequence[Reason]) -> State:
    lost = view.partitions and all(part.unreachable for part in view.partitions)
    if lost and not view.unremarkable:
        return State.UNKNOWN
    stuck = any(reason.level is Level.ERROR for reason in reasons)
    if moving:
        return State.PARTLY_STUCK if stuck else State.MOVING
    return State.STUCK if stuck else State.MOVING if lag else State.CAUGHT_UP


def _damaged(view: GroupView) -> Sequence[Reason]:
    found = [part for part in view.partitions if part.damage]
    return _reasons(
        Code.DAMAGED, Level.ERROR, found,
        lambda count: f"the log of {count} is damaged, so what waits there is not known: "
        f"{found[0].damage}",
        "run talos log verify on the server's data; restore what is damaged from a backup",
    )  # fmt: skip


def _unreachable(view: GroupView) -> Sequence[Reason]:
    lost = [part for part in view.partitions if part.unreachable]
    return _reasons(
        Code.SERVER_UNREACHABLE, Level.ERROR, lost,
        lambda count: f"the server of {count} cannot be asked: {lost[0].unreachable}",
        "see talos cluster status: the partitions move to another server if theirs is down",
    )  # fmt: skip


def _workers(view: GroupView, known: Sequence[PartitionView]) -> Sequence[Reason]:
    if view.workers:
        return ()
    behind = [part for part in known if part.lag]
    lag = sum(part.lag for part in behind)
    if not behind:
        return [
            Reason(code=Code.NO_WORKERS, level=Level.INFO, text="nobody reads with this group now")
        ]
    return _reasons(
        Code.NO_WORKERS, Level.ERROR, behind,
        lambda count: f"nobody reads with this group: no worker has a lease, and {lag:,} messages "
        f"wait in {count}",
        "start the consumer, or look why it stopped; delete the group if it is not used any more",
        lag=lag,
    )  # fmt: skip


def _churn(known: Sequence[PartitionView]) -> Sequence[Reason]:
    churned = [part for part in known if part.grants > GRANTS_MAX]
    most = max((part.grants for part in churned), default=0)
    return _reasons(
        Code.REBALANCING, Level.WARNING, churned,
        lambda count: f"{count} changed hands up to {most} times within {CHURN_S:g} s: workers "
        "join and leave in a loop",
        "look for workers that crash, or that take longer for a batch than their lease lasts",
        grants=most,
    )  # fmt: skip


def _positions(known: Sequence[PartitionView]) -> Sequence[Reason]:
    expired = list(filter(_expired, known))
    gone = sum(part.start - part.checkpoint - 1 for part in expired)
    beyond = list(filter(_beyond, known))
    return [
        *_reasons(
            Code.POSITION_EXPIRED, Level.ERROR, expired,
            lambda count: f"the position in {count} is older than the log: {gone:,} messages after "
            "it were dropped by retention",
            "reset the group to the start (talos group reset TOPIC GROUP --to start --dry-run), "
            "and keep messages longer or read faster",
            dropped=gone,
        ),
        *_reasons(
            Code.POSITION_BEYOND_END, Level.ERROR, beyond,
            lambda count: f"the position in {count} is beyond the end of the log, which lost its "
            "end or was deleted",
            "reset the group to the end (talos group reset TOPIC GROUP --to end --dry-run)",
        ),
    ]  # fmt: skip


def _expired(part: PartitionView) -> bool:
    return 0 <= part.checkpoint and part.checkpoint + 1 < part.start


def _beyond(part: PartitionView) -> bool:
    return part.checkpoint >= max(part.next, part.start)


def _not_held(free: Sequence[PartitionView]) -> Sequence[Reason]:
    lag = sum(part.lag for part in free)
    return _reasons(
        Code.NOT_HELD, Level.ERROR, free,
        lambda count: f"no worker holds {count}, where {lag:,} messages wait",
        "wait for a lease to end (30 s by default); if it stays so, a worker does not take its "
        "share: restart it",
        lag=lag,
    )  # fmt: skip


def _delays(view: GroupView) -> Sequence[Reason]:
    return [
        Reason(
            code=Code.THROTTLED,
            level=Level.WARNING,
            text=f"{delay.name} are delayed by a quota of {delay.limit:,} {delay.unit}: the next "
            f"one waits {delay.wait_s:.1f} s",
            advice="request more (talos quota), or read in fewer and larger requests",
            figures={"limit": float(delay.limit), "wait_s": round(delay.wait_s, 3)},
        )
        for delay in view.delays
    ]


def _not_reading(idle: Sequence[PartitionView], seconds: float) -> Sequence[Reason]:
    found = [part for part in idle if part.fetches == 0]
    return _stuck(
        Code.NOT_READING, found,
        f"and nobody read from there in the last {seconds:g} s",
        "the worker lives, but it does not ask for messages: it is paused, or busy with what it "
        "has; look at it, or restart it",
    )  # fmt: skip


def _not_committing(idle: Sequence[PartitionView]) -> Sequence[Reason]:
    found = [part for part in idle if part.fetches != 0]
    read = all(part.fetches for part in found)
    return _stuck(
        Code.NOT_COMMITTING, found,
        "although it is read" if read else "and whether it is read is not known",
        "the worker does not finish what it reads, or never commits: look for errors in its log, "
        "a message that it cannot process, and its setting for commits",
    )  # fmt: skip


def _stuck(code: Code, found: Sequence[PartitionView], more: str, advice: str) -> Sequence[Reason]:
    lag = sum(part.lag for part in found)
    idle_s = min((part.idle_s for part in found), default=0.0)
    return _reasons(
        code, Level.ERROR, found,
        lambda count: f"workers hold {count}, but committed nothing for {idle_s:.0f} s or longer, "
        f"{more}: {lag:,} messages wait",
        advice, lag=lag, idle_s=round(idle_s, 1),
    )  # fmt: skip


def _moving(moving: Sequence[PartitionView], lag_per_s: float | None) -> Sequence[Reason]:
    lag = sum(part.lag for part in moving)
    text, advice = f"{lag:,} messages wait", ""
    if lag_per_s is not None and lag_per_s < 0:
        text += f"; at the present rate they are processed in {lag / -lag_per_s:,.0f} s"
    elif lag_per_s:
        text += f", {lag_per_s:,.1f} more each second: more arrive than are processed"
        advice = "add workers, up to one for each partition, or make them quicker"
    figures = {} if lag_per_s is None else {"lag_per_s": round(lag_per_s, 3)}
    return _reasons(
        Code.MOVING, Level.INFO, moving,
        lambda count: f"workers process {count} and committed, or started, recently: {text}",
        advice, lag=lag, **figures,
    )  # fmt: skip


def _caught_up(count: int) -> Reason:
    return Reason(
        code=Code.CAUGHT_UP,
        level=Level.INFO,
        partitions_count=count,
        text=f"every message of {_partitions(count)} was processed",
    )


def _reasons(
    code: Code,
    level: Level,
    parts: Sequence[PartitionView],
    text: Callable[[str], str],
    advice: str,
    **figures: float,
) -> Sequence[Reason]:
    """One reason about these partitions; none without any."""
    if not parts:
        return ()
    return [
        Reason(
            code=code,
            level=level,
            partitions=[part.partition for part in parts[:PARTITIONS_SHOWN_MAX]],
            partitions_count=len(parts),
            text=text(_partitions(len(parts))),
            advice=advice,
            figures=figures,
        )
    ]


def _partitions(count: int) -> str:
    return "1 partition" if count == 1 else f"{count:,} partitions"
