"""Probabilities of simulated faults: one frozen dataclass per port, world or cluster.

The seed decides for each call whether a fault happens. By default nothing fails. ``draw`` enables a
different subset of faults for each seed: rare combinations are found sooner when not everything
fails at once.
"""

import random
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeVar

FaultsT = TypeVar("FaultsT", bound="_Faults")

ENABLED = 0.5  # probability that a seed has a given fault at all


@dataclass(frozen=True, slots=True, kw_only=True)
class _Faults:
    """Fields named ``..._s`` are durations, all others probabilities."""

    WORST: ClassVar[dict[str, float]] = {}  # the highest value that ``draw`` gives a field

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value < 0 or (value > 1 and not field.name.endswith("_s")):
                name = f"{type(self).__name__}.{field.name}"
                raise ValueError(f"{name} is {value}: a probability is from 0 to 1")

    @classmethod
    def draw(cls: type[FaultsT], rng: random.Random) -> FaultsT:
        """Faults for one seed."""
        chosen: dict[str, Any] = {}
        for name, worst in cls.WORST.items():
            enabled, strength = rng.random() < ENABLED, rng.random()
            if enabled:
                chosen[name] = worst * strength
        return cls(**chosen)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFaults(_Faults):
    """Faults of the FileStore; every simulated crash also tears and loses bytes."""

    commit_slow: float = 0.0  # takes up to ``slow_s``
    commit_hangs: float = 0.0  # takes up to ``hang_s``
    commit_fails: float = 0.0  # unknown: the file may have none, a part or all of the bytes
    sync_lies: float = 0.0  # of failed commits: readers see the bytes, stable storage never does
    create_fails: float = 0.0  # not done
    create_unknown: float = 0.0  # the file may exist
    close_fails: float = 0.0  # unknown
    recover_slow: float = 0.0  # takes up to ``slow_s``
    recover_stuck: float = 0.0  # RecoveryStuck at the deadline
    recover_refused: float = 0.0  # not done, for up to ``refuse_s``; each file once; not drawn
    read_fails: float = 0.0  # not done
    delete_fails: float = 0.0  # not done
    writeback: float = 0.0  # a flushed commit reaches stable storage without a sync
    # Not drawn: only the worlds of ``storage_worlds`` have them.
    poison: float = 0.0  # above 0: a commit that contains a poisonous message always fails
    raises: float = 0.0  # of calls: an exception that is no port error, before any effect
    foreign: float = 0.0  # of calls of an exhausted machine: no port error either
    thin: float = 0.0  # of commits: from then on a new file would get more replicas
    entries_undone: float = 0.0  # of recent deletes and unfinished creates: undone by a power loss
    slow_s: float = 2.0
    hang_s: float = 12.0
    refuse_s: float = 6.0

    WORST: ClassVar[dict[str, float]] = {
        "commit_slow": 0.1,
        "commit_hangs": 0.02,
        "commit_fails": 0.1,
        "sync_lies": 1.0,
        "create_fails": 0.1,
        "create_unknown": 0.1,
        "close_fails": 0.1,
        "recover_slow": 0.3,
        "recover_stuck": 0.15,
        "read_fails": 0.03,
        "delete_fails": 0.1,
        "writeback": 0.3,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaFaults(_Faults):
    """Faults of the MetaStore."""

    unavailable: float = 0.0  # not done
    unknown: float = 0.0  # of writes: applied or not
    watch_stale: float = 0.0  # a watch returns a state up to ``slow_s`` late
    slow: float = 0.0  # takes up to ``slow_s``
    unknown_later: float = 0.0  # of unknown writes: applied after the reply, if possible; not drawn
    slow_s: float = 2.0

    WORST: ClassVar[dict[str, float]] = {
        "unavailable": 0.03,
        "unknown": 0.06,
        "watch_stale": 0.3,
        "slow": 0.05,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFaults(_Faults):
    """Faults of the RowStore."""

    unavailable: float = 0.0  # not done
    unknown: float = 0.0  # of writes: applied or not
    unknown_later: float = 0.0  # of unknown writes: applied after the reply, if still possible
    slow: float = 0.0  # takes up to ``slow_s``
    slow_s: float = 2.0

    WORST: ClassVar[dict[str, float]] = {
        "unavailable": 0.03,
        "unknown": 0.06,
        "unknown_later": 0.5,
        "slow": 0.05,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldFaults(_Faults):
    """Faults of servers, their clock and their disk: probabilities per virtual second."""

    process_crash: float = 0.0  # the page cache survives
    power_loss: float = 0.0  # everything unsynced is lost
    pause: float = 0.0
    usurped: float = 0.0  # paused, replaced by a second server, then resumed: a zombie
    stop: float = 0.0  # a clean shutdown and start
    clock_jump: float = 0.0  # of wall time, up to ``clock_jump_s`` either way
    disk_full: float = 0.0
    rot: float = 0.0  # a stored bit flips in bytes that the log knows to be acknowledged
    # Not drawn: only the worlds of ``storage_worlds`` have them.
    rot_anywhere: float = 0.0  # a stored bit flips anywhere, also in the last commit of a file
    boot_days: float = 0.0  # of starts, no rate: the wall clock is days wrong, and stays so
    step_days: float = 0.0  # the wall clock is set days wrong, and right up to ``wrong_s`` later
    exhausted: float = 0.0  # no threads or descriptors for up to ``exhausted_s``
    hanging: float = 0.0  # a quarter of the partitions hangs for up to ``hanging_s``
    # Of these a server ends, by a crash or cleanly, and the next one starts on the damage.
    older_meta: float = 0.0  # the last changes of the meta store are undone
    shorter: float = 0.0  # a file of any kind is emptied, or cut within a block
    record_rot: float = 0.0  # a bit of a stored record flips
    wrong_s: float = 5.0
    exhausted_s: float = 3.0
    hanging_s: float = 14.0
    pause_s: float = 8.0
    full_s: float = 8.0
    clock_jump_s: float = 600.0

    WORST: ClassVar[dict[str, float]] = {
        "process_crash": 0.2,
        "power_loss": 0.2,
        "pause": 0.1,
        "usurped": 0.12,
        "stop": 0.1,
        "clock_jump": 0.1,
        "disk_full": 0.1,
        "rot": 0.015,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFaults(_Faults):
    """Faults of a cluster's servers and of its network: probabilities per virtual second."""

    crash: float = 0.0  # of one server, which starts again
    crash_controller: float = 0.0
    restart: float = 0.0  # announced, and back in time
    restart_late: float = 0.0  # announced, and back too late
    leave: float = 0.0  # announced or crashed, and never back
    join: float = 0.0  # of a new server
    drain: float = 0.0
    pause: float = 0.0  # shorter or longer than a session
    cut_peers: float = 0.0  # between two servers, one way or both
    cut_meta: float = 0.0
    cut_storage: float = 0.0  # files or rows
    isolate: float = 0.0  # from all other servers and the meta store, not from clients
    slow_link: float = 0.0
    meta_down: float = 0.0  # no server reaches it
    all_down: float = 0.0
    power_loss: float = 0.0  # everywhere: everything unsynced is lost
    older_meta: float = 0.0  # all servers end and start, and the last changes are undone; not drawn
    clock_jump: float = 0.0  # of one server's wall time, up to ``clock_jump_s`` either way
    disk_full: float = 0.0
    pause_s: float = 6.0
    cut_s: float = 6.0
    meta_down_s: float = 6.0
    full_s: float = 4.0
    slow_link_s: float = 1.0
    clock_jump_s: float = 600.0

    WORST: ClassVar[dict[str, float]] = {
        "crash": 0.4,
        "crash_controller": 0.25,
        "restart": 0.35,
        "restart_late": 0.2,
        "leave": 0.15,
        "join": 0.3,
        "drain": 0.15,
        "pause": 0.6,
        "cut_peers": 0.4,
        "cut_meta": 0.4,
        "cut_storage": 0.3,
        "isolate": 0.35,
        "slow_link": 0.3,
        "meta_down": 0.2,
        "all_down": 0.1,
        "power_loss": 0.12,
        "clock_jump": 0.3,
        "disk_full": 0.15,
    }
