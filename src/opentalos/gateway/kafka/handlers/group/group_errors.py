"""Codes of consumer groups: refusals by name, and our errors where they mean the coordinator."""

from typing import Final

from opentalos.broker.groups.kafka.offsets import Outcome
from opentalos.gateway.kafka.errors import code_of
from opentalos.model import errors
from opentalos.wire.kafka.errors import ErrorCode

_CODES: Final[tuple[tuple[type[errors.TalosError], ErrorCode], ...]] = (
    (errors.InvalidName, ErrorCode.INVALID_GROUP_ID),
    (errors.PartitionNotServing, ErrorCode.NOT_COORDINATOR),
    (errors.TooManyConsumers, ErrorCode.GROUP_MAX_SIZE_REACHED),
    (errors.PermissionDenied, ErrorCode.GROUP_AUTHORIZATION_FAILED),
    (errors.Unavailable, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    # Every request of a group may be repeated: what is stored already is stored again.
    (errors.OutcomeUnknown, ErrorCode.COORDINATOR_NOT_AVAILABLE),
)
_COMMIT_CODES: Final[tuple[tuple[type[errors.TalosError], ErrorCode], ...]] = (
    (errors.SizeExceeded, ErrorCode.OFFSET_METADATA_TOO_LARGE),
    (errors.PermissionDenied, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    (errors.TooManyConsumers, ErrorCode.POLICY_VIOLATION),
)


def group_code(error: errors.TalosError) -> int:
    """The code of an error of a call about a group."""
    for kind, code in _CODES:
        if isinstance(error, kind):
            return int(code)
    return int(code_of(error))


def outcome_code(outcome: Outcome) -> int:
    """The code of a commit of one partition."""
    if outcome is None:
        return int(ErrorCode.NONE)
    if isinstance(outcome, errors.TalosError):
        for kind, code in _COMMIT_CODES:
            if isinstance(outcome, kind):
                return int(code)
        return group_code(outcome)
    return int(ErrorCode[outcome.value])
