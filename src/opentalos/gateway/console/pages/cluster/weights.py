"""Weights of servers: a proposal from measured traffic or a number, seen before it is applied."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from opentalos.gateway.console.calls import RestError
from opentalos.gateway.console.page import ADMINISTRATOR, Done, View, Visit, url
from opentalos.gateway.console.pages.cluster.ring import colours_of, ring_of
from opentalos.model.checks import json_value

ADMINISTRATORS: Final = frozenset({ADMINISTRATOR})
TOPICS_MAX: Final = 100  # with the most traffic, of which each costs a call
PARTITIONS_MAX: Final = 500
DAY_S: Final = 86_400
STEPS_S: Final = (60, 600)  # of topics, and of partitions, which are more
BUDGET: Final = "2"
CONFIRMED: Final = "apply"

Weights = Mapping[str, Any]


async def show(visit: Visit) -> View:
    """The ring as it is, and the forms."""
    return await _view(visit)


async def change(visit: Visit) -> View | Done:
    """Propose, show what a weight would do, or apply: the field ``action`` says what."""
    action = visit.form.get("action", "")
    if action == "apply":
        weights = _sent(visit)
        if visit.form.get("confirmed", "").strip() == CONFIRMED:
            await visit.rest.put("cluster", "weights", document={"servers": weights})
            return Done(url("servers"), "The weights were set; partitions move one after another.")
        visit.failure = f"nothing was set: type {CONFIRMED} to confirm"
        view = await _view(visit, weights)
        return view.with_status(422)
    if action == "propose":
        proposal = await _proposal(visit)
        return await _view(visit, proposal["weights"], proposal)
    server, nodes = visit.form.get("server", ""), visit.number("nodes")
    if not server or nodes is None or not nodes:
        raise RestError(422, "name a server, and its virtual nodes as a number above 0")
    cluster = await visit.rest.get("cluster")
    return await _view(visit, _as_they_are(cluster) | {server: nodes})


async def _view(
    visit: Visit, weights: Weights | None = None, proposal: Mapping[str, Any] | None = None
) -> View:
    cluster = await visit.rest.get("cluster")
    servers = cluster["servers"]
    colours = colours_of([server["name"] for server in servers])
    now = after = None
    if cluster["clustered"]:
        now = ring_of(await visit.rest.get("cluster", "ring"), colours)
        if weights is not None:
            found = await visit.rest.post(
                "cluster", "ring", "previews", document={"servers": weights}
            )
            after = ring_of(found, colours)
    return View(
        template="cluster/weights.html",
        title="Weights of the servers",
        data={
            "cluster": cluster,
            "colours": colours,
            "now": now,
            "after": after,
            "proposal": proposal,
            "most": max(
                (max(row["load_before"], row["load_after"]) for row in proposal["servers"])
                if proposal
                else (0,),
                default=0,
            ),
            "rows": _rows(servers, weights),
            "sent": json.dumps(weights) if weights is not None else "",
            "confirmed_by": CONFIRMED,
            "budget": BUDGET,
            "choices": [(server["name"], server["name"]) for server in servers],
        },
        cli=("talos cluster weights FILE --dry-run", "talos cluster status"),
        trail=(("Servers", url("servers")),),
    )


def _rows(
    servers: Sequence[Mapping[str, Any]], weights: Weights | None
) -> Sequence[Mapping[str, Any]]:
    """Virtual nodes now and then; a server without a weight keeps its own."""
    found = []
    for server in servers:
        nodes = (weights or {}).get(server["name"], server["virtual_nodes"])
        then = nodes if isinstance(nodes, int) else sum(nodes)
        found.append({"name": server["name"], "now": server["virtual_nodes"], "then": then})
    return found


def _as_they_are(cluster: Mapping[str, Any]) -> dict[str, Any]:
    """The weights in force, as PUT takes them: what is left out there gets the configured one."""
    return {server["name"]: server["sectors"] for server in cluster["servers"] if server["sectors"]}


def _sent(visit: Visit) -> Weights:
    """Weights that the preview has put into the form. Raises: RestError."""
    try:
        weights = json_value(visit.form.get("weights", ""))
    except ValueError:
        weights = None
    if not isinstance(weights, dict) or not weights:
        raise RestError(422, "the form has no weights; ask for a proposal again")
    for nodes in weights.values():
        counts = nodes if isinstance(nodes, list) else [nodes]
        if not all(isinstance(count, int) for count in counts):
            raise RestError(422, "weights are whole numbers")
    return weights


async def _proposal(visit: Visit) -> Mapping[str, Any]:
    """Of REST, from the bytes of the last day by partition."""
    sent = visit.form.get("budget", BUDGET).strip()
    try:
        budget = float(sent)
    except ValueError:
        raise RestError(422, "the budget is a number of percent, such as 2") from None
    day = await _traffic(visit)
    if not day:
        raise RestError(422, "nothing was measured in the last day, so there is nothing to balance")
    document = {"days": [day], "budget": budget}
    found: Mapping[str, Any] = await visit.rest.post(
        "cluster", "weights", "proposals", document=document
    )
    return found


async def _traffic(visit: Visit) -> Mapping[str, Sequence[int]]:
    """Bytes of each partition of the busiest topics, by the topic's uuid."""
    now_s = visit.now_ms // 1_000
    # With an end, the step that has begun counts as well.
    shared: Mapping[str, str | int] = {
        "metric": "bytes_in", "from_s": now_s - DAY_S, "to_s": now_s,
    }  # fmt: skip
    of_topics, of_partitions = STEPS_S
    listed, busiest = await asyncio.gather(
        visit.rest.get("topics", query={"scope": "visible"}),
        visit.rest.get(
            "series", query={**shared, "by": "topic", "step_s": of_topics, "limit": TOPICS_MAX}
        ),
    )
    uuids = {
        f"{topic['owner']}/{topic['name']}": (
            topic["resource"].rpartition("#")[2], topic["consumer_partitions"],
        )
        for topic in listed["topics"]
    }  # fmt: skip
    names = [
        line["labels"]["topic"]
        for line in busiest["series"]
        if line["total"] > 0 and line["labels"].get("topic") in uuids
    ]
    found = await asyncio.gather(
        *(
            visit.rest.get(
                "series",
                query={
                    **shared,
                    "by": "partition",
                    "topic": name,
                    "step_s": of_partitions,
                    "limit": PARTITIONS_MAX,
                },
            )
            for name in names
        )
    )
    day: dict[str, Sequence[int]] = {}
    for name, by_partition in zip(names, found, strict=True):
        uuid, partitions = uuids[name]
        counts = [0] * partitions
        for line in by_partition["series"]:
            partition = int(line["labels"].get("partition", -1))
            if 0 <= partition < partitions:
                counts[partition] = int(line["total"])
        day[uuid] = counts
    return day
