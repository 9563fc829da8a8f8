"""Mutants of encryption at rest; see ``mutants`` for what a mutant proves."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from tests.simulation.mutants import CRASHES, TORN, Mutant, _names

from opentalos.catalog.encryption import tenant_keys
from opentalos.catalog.encryption.record import TenantRecord, decode_tenant
from opentalos.catalog.encryption.tenant_keys import TenantKeys
from opentalos.log.partition import log_end, partition_log
from opentalos.log.segment.encrypted_format import place_of
from opentalos.model.message import ENCRYPTED, MessageBlock, PartitionKey

ENCRYPTED_WORLD = replace(CRASHES, encrypted=True)
TORN_WORLD = replace(TORN, encrypted=True)


def give_out_ciphertext(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(partition_log, "decrypt_blocks", lambda blocks, keys, place: True)


def copy_the_tail_as_plain(patch: pytest.MonkeyPatch) -> None:
    def made(*fields: Any) -> MessageBlock:
        block = MessageBlock(*fields)
        return block._replace(format=block.format & ~ENCRYPTED)

    patch.setattr(log_end, "MessageBlock", made)


def use_a_key_that_no_record_has(patch: pytest.MonkeyPatch) -> None:
    async def make(self: Any, tenant: str) -> None:
        self._changed("", None, TenantRecord(tenant, (self._new_version(tenant),)))

    patch.setattr(TenantKeys, "_make", make)


def forget_former_versions(patch: pytest.MonkeyPatch) -> None:
    real = TenantKeys.ensure

    async def ensure(self: TenantKeys, tenants: Iterable[str]) -> None:
        """A rotation at each start, too."""
        await real(self, tenants)
        await self.rotate()

    def last(value: bytes) -> TenantRecord:
        record = decode_tenant(value)
        return record._replace(keys=record.keys[-1:])

    patch.setattr(TenantKeys, "ensure", ensure)
    patch.setattr(tenant_keys, "decode_tenant", last)


def bind_blocks_to_this_process(patch: pytest.MonkeyPatch) -> None:
    numbers = count()

    def bound(key: PartitionKey) -> bytes:
        return place_of(key) + b"%d" % next(numbers)

    patch.setattr(partition_log, "place_of", bound)


UNREADABLE = _names("stuck-partition", "unreadable")
ENCRYPTION_MUTANTS = (
    Mutant("give out ciphertext", _names("corrupt-payload"), give_out_ciphertext, ENCRYPTED_WORLD),
    Mutant("copy the tail as plain", _names("corrupt-payload"), copy_the_tail_as_plain, TORN_WORLD),
    Mutant(
        "use a key that no record has", UNREADABLE, use_a_key_that_no_record_has, ENCRYPTED_WORLD
    ),
    Mutant("forget former versions of a key", UNREADABLE, forget_former_versions, ENCRYPTED_WORLD),
    Mutant("bind blocks to the process", UNREADABLE, bind_blocks_to_this_process, ENCRYPTED_WORLD),
)
