"""Errors between servers: every leaf arrives as itself, a newer one as its branch."""

import pytest
from tests.unit.matrix import matrix

from opentalos.model.errors import (
    ERRORS_BY_NAME,
    NotOwner,
    OutcomeUnknown,
    PartitionNotServing,
    RequestError,
    TalosError,
    Unavailable,
)
from opentalos.wire.peer_errors import error_document, error_of


@matrix("kind", ERRORS_BY_NAME.values())
def test_every_error_arrives_as_the_same_class_with_its_text(kind: type[TalosError]) -> None:
    error = error_of(error_document(kind("why")))
    assert (type(error), str(error)) == (kind, "why")


def test_the_table_of_errors_is_complete() -> None:
    def below(kind: type[TalosError]) -> set[type[TalosError]]:
        return {kind}.union(*(below(leaf) for leaf in kind.__subclasses__()))

    in_model = {kind for kind in below(TalosError) if kind.__module__ == TalosError.__module__}
    assert set(ERRORS_BY_NAME.values()) == in_model


def test_an_owner_keeps_its_address() -> None:
    error = error_of(error_document(NotOwner("there", "h:1", "uuid")))
    assert isinstance(error, NotOwner)
    assert (error.address, error.topic_uuid) == ("h:1", "uuid")


@pytest.mark.parametrize("branch", [RequestError, Unavailable, OutcomeUnknown])
def test_an_error_of_a_newer_version_arrives_as_its_branch(branch: type[TalosError]) -> None:
    newer = type("Newer", (branch,), {})
    error = error_of(error_document(newer("why")))
    assert (type(error), str(error)) == (branch, "Newer: why")


@pytest.mark.parametrize("document", [{}, {"error": "Newer"}, {"error": "os", "branch": "sys"}])
def test_an_error_that_cannot_be_placed_is_unknown(document: dict[str, str]) -> None:
    assert type(error_of(document)) is OutcomeUnknown
    assert type(error_of(document, PartitionNotServing)) is PartitionNotServing
