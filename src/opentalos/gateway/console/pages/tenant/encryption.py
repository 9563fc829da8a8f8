"""Encryption at rest: its state, and new versions of the data keys."""

from typing import Any, Final

from opentalos.gateway.console.calls import RestError
from opentalos.gateway.console.page import LOOKERS, Done, Page, View, Visit, url

WORD: Final = "rotate"


async def show(visit: Visit) -> View:
    """The state of this server."""
    state = await visit.rest.get("encryption")
    return View(
        template="tenant/encryption.html",
        title="Encryption",
        data={"state": state, "word": WORD},
        cli=("talos encryption show", "talos encryption rotate [TENANT]..."),
    )


async def rotate(visit: Visit) -> Done:
    """New versions of the keys of all tenants, or of those that are named."""
    if visit.form.get("confirmed", "").strip() != WORD:
        raise RestError(422, f"nothing was rotated: type {WORD} to confirm")
    named = [name.strip() for name in visit.form.get("tenants", "").split(",") if name.strip()]
    document: dict[str, Any] = {"tenants": named} if named else {}
    done = await visit.rest.post("encryption", "rotation", document=document)
    return Done(url("encryption"), f"{done['rotated']:,} tenants have a new version of their key.")


PAGES = (Page(path="encryption", show=show, change=rotate, menu="Encryption", roles=LOOKERS),)
