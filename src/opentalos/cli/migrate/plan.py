"""What a migration does with a topic and with a group's position; pure."""

import hashlib
from collections.abc import Mapping, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Final

from opentalos.cli.counts import counted
from opentalos.cli.migrate.state_file import CopiedTopic
from opentalos.model.errors import BadRequest
from opentalos.model.identity import Permission
from opentalos.model.message import PRODUCER_ID_MAX
from opentalos.sdk.core.values import TopicDescription

NO_CHECKPOINT: Final = -1
_WILDCARDS: Final = "*?["


class Action(StrEnum):
    """What happens with a topic at the target."""

    CREATE = "create"
    ADOPT = "adopt"  # it exists, is empty, and fits
    RESUME = "resume"  # this migration made it


class Move(StrEnum):
    """What happens with a group's position in a partition at the target."""

    SET = "set"
    SAME = "same"
    KEEP = "keep"  # the group has moved at the target since it was set


def chosen_names(patterns: Sequence[str], found: Sequence[str]) -> list[str]:
    """The topics to copy, sorted; topics of the service itself are none.

    Raises: BadRequest: a pattern matches no topic. Names without wildcards are kept as they are,
    since a granted topic is in no list.
    """
    own = sorted(name for name in found if not name.startswith("_"))
    if not patterns:
        return own
    names: set[str] = set()
    for pattern in patterns:
        matching = {name for name in own if fnmatchcase(name, pattern)}
        if not matching:
            if any(sign in pattern for sign in _WILDCARDS):
                raise BadRequest(f"no topic of the source matches {pattern}")
            matching = {pattern}
        names |= matching
    return sorted(names)


def action_for(
    source: TopicDescription, target: TopicDescription | None, known: CopiedTopic | None
) -> Action:
    """What to do with a topic. Raises: BadRequest: it cannot be copied; nothing was changed."""
    name = source.info.name
    if (source.old_partitions or 0) > source.partitions:
        raise BadRequest(f"topic {name} has fewer partitions since a moment ago; try again later")
    if known is not None and known.source != source.info.resource:
        raise BadRequest(
            f"topic {name} was deleted and created again at the source since this migration began; "
            "delete it at the target and pass a new --state"
        )
    if target is None:
        if known is not None:
            raise BadRequest(
                f"topic {name} was deleted at the target; pass a new --state to copy it again"
            )
        return Action.CREATE
    if target.info.resource == source.info.resource:
        raise BadRequest(f"source and target of topic {name} are the same topic")
    _check_settings(source, target)
    if known is not None:
        if known.target != target.info.resource:
            raise BadRequest(
                f"topic {name} was deleted and created again at the target; delete it there and "
                "pass a new --state"
            )
        return Action.RESUME
    if any(state.end_offset >= 0 for state in target.states):
        raise BadRequest(
            f"topic {name} at the target has messages that are not of this migration; delete it "
            "there, or pass the --state of the migration that made it"
        )
    return Action.ADOPT


def _check_settings(source: TopicDescription, target: TopicDescription) -> None:
    """A partition or key at another place would break the order of a key."""
    name = source.info.name
    if source.partitions != target.partitions:
        raise BadRequest(
            f"topic {name} has {counted(source.partitions, 'partition')} at the source and "
            f"{target.partitions} at the target; make them equal, or delete it at the target"
        )
    here, there = (topic.attributes.get("partitioner", "official") for topic in (source, target))
    if here != there:
        raise BadRequest(
            f"topic {name} has partitioner {here} at the source and {there} at the target; "
            "delete it at the target"
        )


def wanted_grants(
    source: TopicDescription, source_owner: str, target_owner: str
) -> Mapping[str, Permission]:
    """The grants to make at the target; an owner has all permissions without one."""
    return {
        who: mask
        for who, mask in source.permissions.items()
        if who not in (source_owner, target_owner)
    }


def move_for(wanted: int, present: int, written: int | None) -> Move:
    """What to do with a checkpoint, where -1 is none. ``written``: what this migration set."""
    if wanted == present:
        return Move.SAME
    untouched = present == NO_CHECKPOINT or present == written
    return Move.SET if untouched else Move.KEEP


def producer_id_of(source: str, target: str) -> int:
    """The producer id of a copy: the same in each run, so the target recognizes what it has."""
    digest = hashlib.sha256(f"talos migrate\n{source}\n{target}".encode()).digest()
    return int.from_bytes(digest[:8]) % PRODUCER_ID_MAX + 1
