"""Principals and their keys; secrets are sealed at rest and shown once."""

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from opentalos.catalog.access.roles import ADMINISTRATOR, with_limits, with_role
from opentalos.catalog.principals.record import (
    PREFIX,
    KeyRecord,
    PrincipalRecord,
    principal_path,
)
from opentalos.catalog.principals.seal import PrincipalSeal
from opentalos.catalog.principals.secret_box import SecretBox
from opentalos.catalog.records.record_index import CAS_ATTEMPTS_MAX, Codec, RecordIndex
from opentalos.model.checks import shown_value
from opentalos.model.errors import (
    AlreadyExists,
    BadRequest,
    InvalidCredential,
    InvalidName,
    NotFound,
    PrincipalExists,
    PrincipalNotExist,
    QuotaExceeded,
    StoreUnavailable,
    VersionConflict,
)
from opentalos.model.identity import GUEST, UNLIMITED, KeyLimits, Principal, Role
from opentalos.model.names import SYSTEM_TENANT
from opentalos.ports.clock import Clock
from opentalos.ports.meta_store import MetaStore

NUMBER_PATH = "counters/principal"
ROOT_ID = "root"
ORGANISATION_PREFIX, TEAM_PREFIX = "CL", "CI"
LIVE_KEYS_MAX = 2  # of the same scopes and addresses: the old and the new one of a rotation
LIVE_KEYS_TOTAL_MAX = 16  # of one principal
ADDRESSES_MAX = 32  # networks of one key
DISABLED_KEYS_KEPT = 8  # and expired ones: to distinguish their use from an unknown key
KEY_TOKEN_BYTES, SECRET_TOKEN_BYTES = 10, 30  # 16 base32 and 40 base64 characters
ROOT_SECRET_CHARS_MIN = 8
_ID = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._@#+:-]{0,127}")
_KEY_ID = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._@+-]{0,127}")
_SHOWN_CHARS_MAX = 40


class LiveKey(NamedTuple):
    """What the signature check needs of a key."""

    principal: Principal
    secret: bytes
    disabled: bool  # the key, or its principal
    refuse_replays: bool = False
    limits: KeyLimits | None = None

    def check_use(self, peer: str, now_ms: int) -> None:
        """Whether the key may be used now, from this address; call it once the secret matched,
        so that others learn nothing from the text. Raises: InvalidCredential."""
        limits = self.limits
        if limits is None:
            return
        if 0 < limits.expires_ms <= now_ms:
            raise InvalidCredential("this key has expired; create another one")
        if not limits.admits(peer):
            raise InvalidCredential(
                f"this key may not be used from {peer or 'this connection'}; use it from one of "
                "its networks, or create a key for this one"
            )


@dataclass(frozen=True, slots=True)
class IssuedKey:
    """A new key; its secret is shown here and never again."""

    key_id: str
    secret: str


@dataclass(frozen=True, slots=True)
class KeyInfo:
    """A key as lists show it, without its secret."""

    key_id: str
    created_ms: int
    disabled: bool
    limits: KeyLimits = UNLIMITED
    last_used_ms: int = 0  # 0: not known to be used


@dataclass(frozen=True, slots=True)
class PrincipalInfo:
    """A principal as lists show it."""

    principal: Principal
    keys: tuple[KeyInfo, ...]
    created_ms: int
    disabled: bool
    refuse_replays: bool = False


class PrincipalDirectory:
    """All principals in memory, each one record in the MetaStore.

    A record that ``seal`` refuses is in ``records``, but counts nowhere: its principal does not
    exist, and creating it again replaces the record.
    """

    def __init__(
        self,
        meta: MetaStore,
        clock: Clock,
        box: SecretBox,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._meta, self._clock, self._box, self._changed = meta, clock, box, changed
        self.seal = PrincipalSeal(box, judge_again=self._judge_again)
        codec = Codec(self.seal.encode, self.seal.decode)
        self.records = RecordIndex(meta, PREFIX, codec, self._record_changed)
        self._admitted: set[str] = set()  # paths of records that count
        self._keys: dict[str, LiveKey] = {}

    async def start(self) -> None:
        """Load everybody. Raises: ConfigError: another server key sealed the secrets."""
        await self.records.start()
        self.seal.check_key(self.records.items())

    async def close(self) -> None:
        """Stop following changes of other servers."""
        await self.records.close()

    def key(self, key_id: str) -> LiveKey | None:
        """The key for a signature check; sync, for the hot path."""
        return self._keys.get(key_id)

    def get(self, principal_id: str) -> Principal | None:
        """The principal of that id."""
        record = self._record(principal_id)
        return record.principal if record else None

    def info(self, principal_id: str) -> PrincipalInfo | None:
        """The principal of that id with its keys, without their secrets."""
        record = self._record(principal_id)
        return _info(record) if record else None

    def owner_of_key(self, key_id: str) -> str:
        """Id of the principal that has the key. Raises: PrincipalNotExist."""
        key = self._keys.get(key_id)
        if key is None:
            raise PrincipalNotExist(f"key {key_id[:_SHOWN_CHARS_MAX]} does not exist")
        return key.principal.id

    def list_all(self) -> Sequence[PrincipalInfo]:
        """Everybody, by id."""
        infos = [_info(record) for path, record in self.records.items() if self._counts(path)]
        return sorted(infos, key=lambda info: info.principal.id)

    async def create(
        self,
        principal_id: str,
        organisation: str,
        team: str,
        admin: bool,
        role: Role = Role.USER,
    ) -> Principal:
        """Add a principal. Raises: InvalidName, PrincipalExists."""
        organisation, team = check_principal(principal_id, organisation, team)
        if self.get(principal_id) is not None:
            raise PrincipalExists(f"principal {principal_id} already exists")
        principal = Principal(
            id=principal_id,
            number=await self._next_number(),
            organisation=organisation,
            team=team,
            admin=admin,
            role=role,
        )
        await self._add(PrincipalRecord(principal=principal, created_ms=self._clock.wall_ms()))
        return principal

    async def create_key(self, principal_id: str, limits: KeyLimits = UNLIMITED) -> IssuedKey:
        """Issue a key. Raises: PrincipalNotExist; QuotaExceeded: too many are live; BadRequest:
        it has expired already, or has too many addresses."""
        now_ms = self._clock.wall_ms()
        if 0 < limits.expires_ms <= now_ms:
            raise BadRequest("could not create the key: its expiry has passed; use a later time")
        if len(limits.addresses) > ADDRESSES_MAX:
            raise BadRequest(
                f"could not create the key: {len(limits.addresses)} networks are too many; "
                f"use {ADDRESSES_MAX} or fewer"
            )
        principal = self.get(principal_id)
        prefix = "AK" if principal and principal.organisation else "DK"
        token = self._clock.token(KEY_TOKEN_BYTES)
        issued = IssuedKey(
            prefix + base64.b32encode(token).decode(),
            base64.urlsafe_b64encode(self._clock.token(SECRET_TOKEN_BYTES)).decode(),
        )
        key = replace(self._sealed(issued), limits=None if limits == UNLIMITED else limits)

        def add(record: PrincipalRecord) -> PrincipalRecord:
            live = [old for old in record.keys if old.live(now_ms)]
            alike = sum(_purpose(old) == _purpose(key) for old in live)
            for count, most in ((alike, LIVE_KEYS_MAX), (len(live), LIVE_KEYS_TOTAL_MAX)):
                if count >= most:
                    raise QuotaExceeded(
                        f"live keys of {principal_id}: limit {most}, measured {count}; "
                        "disable one first"
                    )
            return _with_key(record, key, now_ms)

        await self._change(principal_id, add)
        return issued

    async def disable_key(self, key_id: str) -> None:
        """Disable a key permanently. Raises: PrincipalNotExist."""

        def disable(record: PrincipalRecord) -> PrincipalRecord:
            keys = tuple(
                replace(key, disabled=True) if key.key_id == key_id else key for key in record.keys
            )
            return replace(record, keys=keys)

        await self._change(self.owner_of_key(key_id), disable)

    async def change(
        self,
        principal_id: str,
        *,
        disabled: bool | None = None,
        refuse_replays: bool | None = None,
        role: str | None = None,
        key_ends: Mapping[str, int] | None = None,
    ) -> None:
        """Lock a principal out or let it in again; take its signed requests once or not; give it
        another role; None: as it is.

        Args: key_ends: other ends of live keys, Unix ms by key id; 0: none. Their other limits
        stay. Raises: PrincipalNotExist; BadRequest, also if a key is not accepted any more.
        """
        now_ms, ends = self._clock.wall_ms(), key_ends or {}
        if role not in (None, ADMINISTRATOR) and principal_id == ROOT_ID:
            raise BadRequest(f"could not change the role of {ROOT_ID}: it is always administrator")

        def changed(record: PrincipalRecord) -> PrincipalRecord:
            return replace(
                record,
                principal=record.principal if role is None else with_role(record.principal, role),
                disabled=record.disabled if disabled is None else disabled,
                refuse_replays=record.refuse_replays if refuse_replays is None else refuse_replays,
                keys=tuple(
                    _with_end(key, ends[key.key_id], now_ms) if key.key_id in ends else key
                    for key in record.keys
                ),
            )

        await self._change(principal_id, changed)

    async def ensure_root(self, key_id: str, secret: str) -> Principal:
        """Make the administrator with this key, or give it this key; idempotent.

        Raises: BadRequest: an unusable id or secret, or another principal has the key id.
        """
        check_root_key(key_id, secret)
        if self.get(ROOT_ID) is None:
            try:
                await self.create(ROOT_ID, "", "", admin=True)
            except PrincipalExists:
                await self.records.refresh(principal_path(ROOT_ID))
        held = self._keys.get(key_id)
        if held is not None and held.principal.id != ROOT_ID:
            raise BadRequest(f"key {key_id} belongs to {held.principal.id}")
        if held is None or held.secret != secret.encode() or held.disabled or held.limits:
            key = self._sealed(IssuedKey(key_id, secret))
            now_ms = self._clock.wall_ms()
            await self._change(ROOT_ID, lambda record: _with_root_key(record, key, now_ms))
        return self._keys[key_id].principal

    def _record(self, principal_id: str) -> PrincipalRecord | None:
        path = principal_path(principal_id)
        return self.records.get(path) if self._counts(path) else None

    def _counts(self, path: str) -> bool:
        return path in self._admitted

    async def _add(self, new: PrincipalRecord) -> None:
        """Write the first record of a principal, also over one that does not count."""
        path, now_ms = principal_path(new.principal.id), self._clock.wall_ms()

        def replaced(former: PrincipalRecord) -> PrincipalRecord:
            if self._counts(path):
                raise PrincipalExists(f"principal {new.principal.id} already exists")
            return self.seal.revised(new, former, now_ms)

        try:
            await self.records.create(path, self.seal.revised(new, None, now_ms))
        except AlreadyExists:
            await self.records.change(path, replaced)

    async def _change(
        self, principal_id: str, change: Callable[[PrincipalRecord], PrincipalRecord]
    ) -> None:
        path = principal_path(principal_id)

        def changed(record: PrincipalRecord) -> PrincipalRecord:
            if not self._counts(path):
                raise NotFound(path)
            after = change(record)
            if after == record:
                return record
            return self.seal.revised(after, record, self._clock.wall_ms())

        try:
            await self.records.change(path, changed)
        except NotFound:
            quoted = shown_value(principal_id)
            raise PrincipalNotExist(f"principal {quoted} does not exist") from None

    async def _next_number(self) -> int:
        """A new unique billing number; a crash may skip one."""
        for _ in range(CAS_ATTEMPTS_MAX):
            record = await self._meta.get(NUMBER_PATH)
            number = 1 if record is None else int(record.value) + 1
            value = str(number).encode()
            try:
                if record is None:
                    await self._meta.create(NUMBER_PATH, value)
                else:
                    await self._meta.replace(NUMBER_PATH, value, record.version)
            except (AlreadyExists, VersionConflict):
                continue
            return number
        raise StoreUnavailable("could not count principals: too many concurrent changes; retry")

    def _sealed(self, issued: IssuedKey) -> KeyRecord:
        sealed = self._box.seal(issued.secret.encode(), issued.key_id)
        return KeyRecord(
            key_id=issued.key_id, sealed=sealed, created_ms=self._clock.wall_ms(), disabled=False
        )

    def _record_changed(
        self, path: str, old: PrincipalRecord | None, new: PrincipalRecord | None
    ) -> None:
        if old is not None:
            self._forget(path, old)
        if new is None:
            self.seal.removed(path)
        elif self.seal.admit(path, new):
            self._take(path, new)
        self._changed()

    def _forget(self, path: str, record: PrincipalRecord) -> None:
        """The record counts no more; one that did not count had no keys here."""
        if path in self._admitted:
            self._admitted.remove(path)
            for key in record.keys:
                self._keys.pop(key.key_id, None)

    def _take(self, path: str, record: PrincipalRecord) -> None:
        for key in record.keys:
            secret = self._box.open(key.sealed, key.key_id)
            disabled = key.disabled or record.disabled
            principal = with_limits(record.principal, key.limits)
            live = LiveKey(principal, secret, disabled, record.refuse_replays, key.limits)
            self._keys[key.key_id] = live
        self._admitted.add(path)

    def _judge_again(self) -> None:
        """MACs are demanded from now on."""
        for path, record in self.records.items():
            if path in self._admitted and not self.seal.admit(path, record):
                self._forget(path, record)
        self._changed()


def check_principal(principal_id: str, organisation: str, team: str) -> tuple[str, str]:
    """Organisation and team of a principal to create; an id's prefix says what it is.

    Raises: InvalidName.
    """
    for text, what in ((principal_id, "principal"), (organisation, "organisation"), (team, "team")):
        if text and not _ID.fullmatch(text):
            raise InvalidName(f"invalid {what} id {shown_value(text)}")
    if principal_id in ("", GUEST.id, SYSTEM_TENANT):
        raise InvalidName(f"principal id {shown_value(principal_id)} is reserved; choose another")
    if principal_id.startswith(ORGANISATION_PREFIX):
        if team or organisation not in ("", principal_id):
            raise InvalidName(f"organisation {principal_id} cannot belong to another organisation")
        return principal_id, ""
    if principal_id.startswith(TEAM_PREFIX):
        if team not in ("", principal_id):
            raise InvalidName(f"team {principal_id} cannot belong to another team")
        team = principal_id
    if organisation and not organisation.startswith(ORGANISATION_PREFIX):
        raise InvalidName(f"organisation id {shown_value(organisation)} must start with CL")
    if team and not team.startswith(TEAM_PREFIX):
        raise InvalidName(f"team id {shown_value(team)} must start with CI")
    return organisation, team


def check_root_key(key_id: str, secret: str) -> None:
    """Raises: BadRequest."""
    if not _KEY_ID.fullmatch(key_id):
        raise BadRequest("a root key id must be 1 to 128 ASCII letters, digits and . _ @ + -")
    if len(secret) < ROOT_SECRET_CHARS_MIN:
        raise BadRequest(f"a root secret must have at least {ROOT_SECRET_CHARS_MIN} characters")


def _purpose(key: KeyRecord) -> object:
    """Keys for the same purpose follow one another in a rotation; their expiry may differ."""
    return (key.limits.scopes, key.limits.addresses) if key.limits else ((), ())


def _with_end(key: KeyRecord, expires_ms: int, now_ms: int) -> KeyRecord:
    """The key with another end. Raises: BadRequest: what nobody accepts does not come back."""
    if not key.live(now_ms):
        raise BadRequest("could not change the key: it has ended; create another one")
    if 0 < expires_ms <= now_ms:
        raise BadRequest("could not change the key: this end has passed; disable the key")
    limits = replace(key.limits or UNLIMITED, expires_ms=expires_ms)
    return replace(key, limits=None if limits == UNLIMITED else limits)


def _with_key(record: PrincipalRecord, key: KeyRecord, now_ms: int) -> PrincipalRecord:
    """The record with a key added; of disabled and expired ones only the newest are kept."""
    live = [old for old in record.keys if old.live(now_ms)]
    ended = [old for old in record.keys if not old.live(now_ms)][-DISABLED_KEYS_KEPT:]
    return replace(record, keys=(*ended, *live, key))


def _with_root_key(record: PrincipalRecord, key: KeyRecord, now_ms: int) -> PrincipalRecord:
    """The server's owner decides: the new key replaces its former self or the older live one."""
    others = tuple(old for old in record.keys if old.key_id != key.key_id)
    live = [old for old in others if old.live(now_ms) and _purpose(old) == _purpose(key)]
    if len(live) >= LIVE_KEYS_MAX:
        retired = live[0]
        others = tuple(replace(old, disabled=True) if old is retired else old for old in others)
    return _with_key(replace(record, keys=others, disabled=False), key, now_ms)


def _info(record: PrincipalRecord) -> PrincipalInfo:
    keys = tuple(
        KeyInfo(key.key_id, key.created_ms, key.disabled, key.limits or UNLIMITED)
        for key in record.keys
    )
    return PrincipalInfo(
        record.principal, keys, record.created_ms, record.disabled, record.refuse_replays
    )
