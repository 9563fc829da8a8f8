"""Principals: the list, a new one, one with its keys, and what it may do."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from opentalos.gateway.console.calls import RestError
from opentalos.gateway.console.page import ADMINISTRATOR, Done, Page, View, Visit, url
from opentalos.gateway.console.paging import matching, part

ROLES: Final = ("user", "viewer", "operator", "billing", "agent", ADMINISTRATOR)
SCOPES: Final = ("put", "get", "describe", "manage", "admin")
READ_TOPICS: Final = 40  # whose permissions a page reads, one call each
_ADMINISTRATORS: Final = frozenset({ADMINISTRATOR})
_DAY_MS: Final = 86_400_000
_SOON_MS: Final = 14 * _DAY_MS
_UNUSED_MS: Final = 90 * _DAY_MS
_NOT_SHOWN: Final = (403, 404)


async def show(visit: Visit) -> View:
    """Those that the caller may see."""
    listed = await visit.rest.get("principals")
    role = visit.query.choice("role", ("", *ROLES))
    found = [
        principal | {"live": len(_live(principal, visit.now_ms)), "last_ms": _last_used(principal)}
        for principal in matching(
            listed["principals"], visit.query.text("filter"), "id", "organisation", "team"
        )
        if role in ("", principal["role"])
    ]
    everybody: list[dict[str, Any]] = listed["principals"]
    return View(
        template="tenant/principals.html",
        title="Principals",
        data={
            "part": part(visit.query, found),
            "role": role,
            "roles": [(name, sum(p["role"] == name for p in everybody)) for name in ROLES],
            "total": len(everybody),
            "disabled": sum(principal["disabled"] for principal in everybody),
            "expiring": sum(
                _state(key, visit.now_ms)[1] == "warn"
                for principal in everybody
                for key in principal["keys"]
            ),
        },
        cli=("talos user list",),
    )


async def show_form(visit: Visit) -> View:
    """The form of a new principal."""
    return View(
        template="tenant/new_principal.html",
        title="New principal",
        data={"roles": ROLES},
        cli=("talos user create NAME --organisation ID --role ROLE",),
        trail=trail(),
    )


async def create(visit: Visit) -> Done:
    """A new principal, without a key."""
    form = visit.form
    document: dict[str, Any] = {"id": form.get("id", "").strip()}
    for name in ("organisation", "team", "role"):
        if form.get(name, "").strip():
            document[name] = form[name].strip()
    made = await visit.rest.post("principals", document=document)
    notice = f"Principal {made['id']} was created, without a key."
    return Done(url("principals", made["id"]), notice)


async def show_principal(visit: Visit) -> View:
    """One with its keys, and the forms that change them."""
    name = visit.places["principal"]
    principal = await visit.rest.get("principals", name)
    now_ms = visit.now_ms
    keys = [
        key | {"state": _state(key, now_ms)}
        for key in sorted(principal["keys"], key=lambda key: key["created_ms"], reverse=True)
    ]
    return View(
        template="tenant/principal.html",
        title=principal["id"],
        data={
            "principal": principal,
            "tab": "",
            "part": part(visit.query, keys),
            "live": _live(principal, now_ms),
            "scopes": SCOPES,
            "roles": ROLES,
            "may_change": visit.who.administers or principal["id"] == visit.who.id,
        },
        cli=(
            f"talos key list {name}",
            f"talos key create {name}",
            "talos key rotate KEY_ID",
            "talos key expire KEY_ID --in DURATION",
        ),
        trail=trail(),
    )


async def change_principal(visit: Visit) -> View | Done:
    """Keys and state of the principal: the field ``action`` says what."""
    name, form = visit.places["principal"], visit.form
    action, key_id, here = form.get("action", ""), form.get("key_id", ""), url("principals", name)
    if action == "create":
        made = await visit.rest.post("principals", name, "keys", document=_limits(visit))
        return _shown_once(name, made)
    if action == "rotate":
        document = {"expires_ms": _expires_ms(visit)} if form.get("expires_days") else {}
        made = await visit.rest.post("keys", key_id, "rotate", document=document)
        return _shown_once(name, made)
    if action == "end":
        expires_ms = 0 if form.get("never") == "1" else _expires_ms(visit)
        await visit.rest.patch("keys", key_id, document={"expires_ms": expires_ms})
        return Done(here, f"Key {key_id} {_end_text(visit, expires_ms)}.")
    if action == "disable-key":
        if form.get("confirmed", "").strip() != key_id:
            raise RestError(422, "nothing was disabled: the key id that you typed is another one")
        await visit.rest.delete("keys", key_id)
        return Done(here, f"Key {key_id} is disabled for good.")
    if action in ("disable", "enable"):
        changed: dict[str, Any] = {"disabled": action == "disable"}
        await visit.rest.patch("principals", name, document=changed)
        return Done(here, f"{name} is {action}d.")
    if action == "role":
        await visit.rest.patch("principals", name, document={"role": form.get("role", "")})
        return Done(here, f"{name} has the role {form.get('role', '')}.")
    if action == "replays":
        refuse = form.get("refuse") == "1"
        await visit.rest.patch("principals", name, document={"refuse_replays": refuse})
        return Done(here, f"Repeated requests of {name} are {'refused' if refuse else 'accepted'}.")
    raise RestError(422, "the form asks for nothing that is known here")


def _shown_once(name: str, made: Mapping[str, Any]) -> View:
    """The page with the secret, which nothing stores."""
    return View(
        template="tenant/secret.html",
        title="New key",
        data={"made": made, "principal": {"id": name}, "back": url("principals", name)},
        cli=(f"talos key list {name}",),
        trail=(*trail(), (name, url("principals", name))),
    )


async def show_permissions(visit: Visit) -> View:
    """Grants to a principal, its team and its organisation, of topics that the caller may see."""
    name = visit.places["principal"]
    principal, topics, tables = await asyncio.gather(
        visit.rest.get("principals", name),
        visit.rest.get("topics", query={"scope": "visible"}),
        visit.rest.maybe("tables"),
    )
    names = [name for name in (principal["id"], principal["team"], principal["organisation"])
             if name]  # fmt: skip
    found = matching(topics["topics"], visit.query.text("filter"), "name", "owner")
    shown = part(visit.query, found, READ_TOPICS, READ_TOPICS)
    granted = await asyncio.gather(*(_granted(visit, topic) for topic in shown.rows))
    owner = principal["organisation"] or principal["id"]
    return View(
        template="tenant/permissions.html",
        title=principal["id"],
        data={
            "principal": principal,
            "tab": "permissions",
            "names": names,
            "part": shown,
            "rows": [
                (topic, _of(grants, names), topic["owner"] == owner)
                for topic, grants in zip(shown.rows, granted, strict=True)
            ],
            "tables": _tables(tables["tables"] if tables else (), names, owner),
        },
        cli=("talos acl list TOPIC",),
        trail=trail(),
    )


async def _granted(visit: Visit, topic: Mapping[str, Any]) -> Mapping[str, Sequence[str]] | None:
    """Permissions by grantee; None: the caller may not see them."""
    path = f"{topic['owner']}/{topic['name']}"
    try:
        found = await visit.rest.get("topics", path, "permissions")
    except RestError as error:
        if error.status not in _NOT_SHOWN:
            raise
        return None
    granted: Mapping[str, Sequence[str]] = found["permissions"]
    return granted


def _of(
    granted: Mapping[str, Sequence[str]] | None, names: Sequence[str]
) -> Sequence[tuple[str, Sequence[str]]] | None:
    if granted is None:
        return None
    return [(name, granted[name]) for name in (*names, "guest") if name in granted]


def _tables(
    tables: Sequence[Mapping[str, Any]], names: Sequence[str], owner: str
) -> Sequence[tuple[Mapping[str, Any], Sequence[str], bool]]:
    rows = []
    for table in tables:
        rights = [
            right
            for grants in (table["apps"], table["teams"])
            for name in names
            for right in grants.get(name, ())
        ]
        if rights or table["owner"] == owner:
            rows.append((table, rights, table["owner"] == owner))
    return rows


def _limits(visit: Visit) -> Mapping[str, Any]:
    """What restricts the new key; nothing is sent that the form leaves empty."""
    form = visit.form
    found: dict[str, Any] = {}
    scopes = [scope for scope in SCOPES if f"scope-{scope}" in form]
    addresses = [text.strip() for text in form.get("addresses", "").split(",") if text.strip()]
    if scopes:
        found["scopes"] = scopes
    if addresses:
        found["addresses"] = addresses
    if form.get("expires_days", "").strip():
        found["expires_ms"] = _expires_ms(visit)
    return found


def _expires_ms(visit: Visit) -> int:
    """Raises: RestError: no number of days."""
    days = visit.number("expires_days")
    if days is None or not 0 < days <= 36_500:
        raise RestError(422, "a key expires in 1 to 36,500 days")
    return visit.now_ms + days * _DAY_MS


def _end_text(visit: Visit, expires_ms: int) -> str:
    days = round((expires_ms - visit.now_ms) / _DAY_MS)
    return f"expires in {days:,} day{'' if days == 1 else 's'}" if expires_ms else "never expires"


def _state(key: Mapping[str, Any], now_ms: int) -> tuple[str, str]:
    """Word and kind."""
    expires_ms = key["expires_ms"]
    if key["disabled"]:
        return "disabled", ""
    if 0 < expires_ms <= now_ms:
        return "expired", "bad"
    if 0 < expires_ms <= now_ms + _SOON_MS:
        return "expires soon", "warn"
    last_ms = key["last_used_ms"] or key["created_ms"]
    return ("not used for long", "warn") if last_ms < now_ms - _UNUSED_MS else ("active", "good")


def _live(principal: Mapping[str, Any], now_ms: int) -> Sequence[Mapping[str, Any]]:
    """Keys that are accepted."""
    dead = ("disabled", "expired")
    return [key for key in principal["keys"] if _state(key, now_ms)[0] not in dead]


def _last_used(principal: Mapping[str, Any]) -> int:
    return max((key["last_used_ms"] for key in principal["keys"]), default=0)


def trail() -> Sequence[tuple[str, str]]:
    """The pages above those of a principal."""
    return (("Principals", url("principals")),)


PAGES = (
    Page(path="principals", show=show, menu="Principals"),
    Page(path="principals/new", show=show_form, change=create, roles=_ADMINISTRATORS),
    Page(path="principals/{principal}", show=show_principal, change=change_principal),
    Page(path="principals/{principal}/permissions", show=show_permissions),
)
