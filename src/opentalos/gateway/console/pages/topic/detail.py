"""One topic: partitions, settings, permissions, deletion."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from opentalos.gateway.console.calls import RestError
from opentalos.gateway.console.page import EVERYBODY, READERS, Done, Page, View, Visit, url
from opentalos.gateway.console.pages import series
from opentalos.gateway.console.pages.group.groups import largest_first
from opentalos.gateway.console.pages.topic import states
from opentalos.gateway.console.pages.topic.topics import seconds

REFRESH_S: Final = 5
_SLOW_REFRESH_S: Final = 60  # if the states of many partitions are read
CONSUMERS: Final = 10  # groups of a topic's page, those with the largest lag
PERMISSIONS: Final = ("GET_MESSAGE", "PUT_MESSAGE", "DESCRIBE_TOPIC")
_CHARTS: Final = (
    ("Messages in per second, by partition", "messages_in", "partition", ""),
    ("Lag of groups, messages", "lag", "group", ""),
    ("Bytes in per second", "bytes_in", "total", "bytes"),
    ("Bytes out per second", "bytes_out", "total", "bytes"),
)
_CHANGERS: Final = EVERYBODY - READERS


async def show(visit: Visit) -> View:
    """Amounts, consumer groups, and the state of each partition."""
    name = visit.places["topic"]
    topic = await visit.rest.get("topics", name, query={"limit": states.QUICK_PARTITIONS})
    order = visit.query.choice("order", states.ORDERS)
    read, groups = await asyncio.gather(
        states.read(visit, topic, order),
        visit.rest.maybe("topics", name, "groups", absent=(403, 404)),
    )
    span = visit.query.choice("span", tuple(series.SPANS), "1h")
    return View(
        template="topic/topic.html",
        title=topic["name"],
        data={
            "topic": topic,
            "tab": "",
            "part": read.part,
            "groups": None if groups is None else largest_first(groups["groups"], "lag"),
            "groups_max": CONSUMERS,
            "order": order,
            "most": max((state["bytes"] for state in read.known), default=0),
            "totals": read.totals,
            "missing": read.missing,
            "charts": True,
            "span": span,
            "spans": tuple(series.SPANS),
            "charted": _charts(f"{topic['owner']}/{topic['name']}", span),
        },
        cli=(f"talos topic describe {name}", f"talos topic offsets {name}"),
        refresh_s=REFRESH_S if len(read.known) <= states.QUICK_PARTITIONS else _SLOW_REFRESH_S,
        trail=trail(),
    )


async def header(visit: Visit, name: str) -> Any:
    """The topic without the states of its partitions, which take the server long if many."""
    return await visit.rest.get("topics", name, query={"limit": 0})


def _charts(topic: str, span: str) -> list[tuple[str, str, str]]:
    """Title, source and unit of each chart."""
    return [
        (title, series.source(metric, topic=topic, by=by, span=span), unit)
        for title, metric, by, unit in _CHARTS
    ]


async def show_settings(visit: Visit) -> View:
    """The forms to change and to delete the topic."""
    name = visit.places["topic"]
    topic = await header(visit, name)
    return View(
        template="topic/settings.html",
        title=topic["name"],
        data={"topic": topic, "tab": "settings"},
        cli=(
            f"talos topic alter {name} --retention DURATION",
            f"talos topic set-partitions {name} COUNT",
            f"talos topic delete {name}",
        ),
        trail=trail(),
    )


async def change_settings(visit: Visit) -> Done:
    """Change the topic, or delete it: the field ``action`` says what."""
    name = visit.places["topic"]
    if visit.form.get("action") == "delete":
        topic = await header(visit, name)
        if visit.form.get("confirmed", "").strip() != topic["name"]:
            raise RestError(422, "nothing was deleted: the name that you typed is another one")
        await visit.rest.delete("topics", name)
        return Done(url("topics"), f"Topic {topic['name']} was deleted.")
    sent: dict[str, Any] = {"partitions": visit.number("partitions")}
    if visit.form.get("retention_days"):
        sent["retention_s"] = seconds(visit.form["retention_days"])
    document = {key: value for key, value in sent.items() if value is not None}
    topic = await visit.rest.patch("topics", name, document=document)
    return Done(url("topics", name), f"Topic {topic['name']} was changed.")


async def show_permissions(visit: Visit) -> View:
    """Who may do what, and the form that grants."""
    name = visit.places["topic"]
    topic, found = await asyncio.gather(
        header(visit, name), visit.rest.get("topics", name, "permissions")
    )
    return View(
        template="topic/permissions.html",
        title=topic["name"],
        data={
            "topic": topic,
            "tab": "permissions",
            "granted": list(found["permissions"].items()),
            "grantable": PERMISSIONS,
        },
        cli=(
            f"talos acl list {name}",
            f"talos acl grant {name} GRANTEE PERMISSION...",
            f"talos acl revoke {name} GRANTEE",
        ),
        trail=trail(),
    )


async def change_permissions(visit: Visit) -> Done:
    """Grant or revoke: the field ``action`` says what."""
    name, grantee = visit.places["topic"], visit.form.get("grantee", "").strip()
    back = url("topics", name, "permissions")
    if not grantee:
        raise RestError(422, "name a principal, a team, an organisation, or guest")
    if visit.form.get("action") == "revoke":
        await visit.rest.delete("topics", name, "permissions", grantee)
        return Done(back, f"{grantee} has no permissions any more.")
    granted = [permission for permission in PERMISSIONS if permission in visit.form]
    document = {"permissions": granted}
    await visit.rest.put("topics", name, "permissions", grantee, document=document)
    return Done(back, f"{grantee} has the permissions {', '.join(granted)}.")


def trail() -> Sequence[tuple[str, str]]:
    """The pages above those of a topic."""
    return (("Topics", url("topics")),)


PAGES = (
    Page(path="topics/{topic}", show=show),
    Page(path="topics/{topic}/settings", show=show_settings, change=change_settings,
         roles=_CHANGERS),
    Page(path="topics/{topic}/permissions", show=show_permissions, change=change_permissions),
)  # fmt: skip
