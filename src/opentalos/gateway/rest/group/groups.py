"""REST of consumer groups: progress, lag and resets."""

from collections.abc import Mapping
from typing import Any

from opentalos.broker.groups.explain import PARTITIONS_SHOWN_MAX, Explanation, State
from opentalos.broker.groups.lag.figures import (
    LARGEST_MAX,
    MEMBER_PARTITIONS_MAX,
    MEMBERS_MAX,
    GroupFigures,
    LagSummary,
    Order,
    Window,
)
from opentalos.broker.groups.resets import ResetOffsets, ResetTarget, ResetTime, ResetTo
from opentalos.gateway.rest.routing.call import Answer, Call
from opentalos.gateway.rest.routing.forms import GROUP, PARTITION
from opentalos.gateway.rest.routing.route import Body, Route
from opentalos.gateway.rest.routing.schema import (
    boolean,
    either,
    fields,
    integer,
    items,
    nullable,
    number,
    one_of,
    table,
    text,
)
from opentalos.gateway.rest.topic.naming import topic_of
from opentalos.gateway.rest.topic.topic_page import AFTER, page_of
from opentalos.model.identity import Permission

PARTITIONS_MAX = 10_000  # of one request
EXPLAIN_S = 10.0  # also if a server does not answer
TOPICS_MAX = 200  # whose groups one page lists
LIST_S = 10.0  # also if a server does not answer
RESET_S = 20.0  # for all partitions of a group
_NUMBER = text(PARTITION)
CHECKPOINT = integer(-1, about="Offset of the last processed message; -1: none.")
LAG = nullable(
    integer(about="Retained messages after the checkpoint; null: not known, a log is damaged.")
)
_PARTITION = fields(
    partition=integer(),
    checkpoint=CHECKPOINT,
    lag=LAG,
    worker=text(about="Worker that holds the lease; empty: none."),
    address=text(about="Address of the worker."),
)
_SUMS = {
    "lag": LAG,
    "lag_s": nullable(
        number(
            "Seconds since the oldest message was stored that the group has not processed, of the "
            f"{LARGEST_MAX} partitions with the greatest lag; null: it cannot be read now."
        )
    ),
    "lag_max": nullable(integer(about="Of the partition with the greatest lag; null as lag.")),
    "behind": integer(about="Partitions with lag."),
    "damaged": integer(about="Partitions whose lag is not known, since they are damaged."),
}
_MEMBER = fields(
    worker=text(),
    address=text(about="Address of the worker."),
    partitions=items(integer(), maximum=MEMBER_PARTITIONS_MAX),
    partitions_count=integer(about="All that it holds; some may not be listed."),
    lag=LAG,
)
_GROUP = fields(
    group=text(),
    **_SUMS,
    held=integer(about="Partitions with a live lease."),
    members=items(_MEMBER, maximum=MEMBERS_MAX),
    members_count=integer(about="All of them; some may not be listed."),
    partitions_count=integer(about="All of them; `from` and `limit` list a part."),
    partitions=items(_PARTITION),
)
_TO = either(
    one_of("start", "end"),
    fields(time_ms=integer(about="Unix milliseconds.")),
    fields(offsets=table(CHECKPOINT, _NUMBER, minimum=1, maximum=PARTITIONS_MAX)),
)
_REASON = fields(
    code=text(),
    level=one_of("error", "warning", "info", about="error: messages wait because of it."),
    partitions=items(integer(), maximum=PARTITIONS_SHOWN_MAX),
    partitions_count=integer(about="All of them; some may not be listed."),
    text=text(about="What it is, with numbers."),
    advice=text(about="What to do; may be empty."),
    figures=table({}),
)
_EXPLANATION = fields(
    group=text(),
    state=one_of(*(state.value for state in State)),
    lag=LAG,
    workers=integer(about="With a live lease."),
    reasons=items(_REASON),
)
_RESET = fields(partition=integer(), before=CHECKPOINT, after=CHECKPOINT)


async def list_all_groups(call: Call) -> Answer:
    """Groups of one page of the topics that the caller may see."""
    call.exchange.extend(LIST_S)
    visible = await call.broker.overview.listed_topics(call.caller)
    page = page_of(visible, call.query.get("after", ""), call.query.get("limit", TOPICS_MAX))
    lags = await call.broker.overview.lags(call.caller, page.topics)
    ages = await call.broker.overview.ages(page.topics, lags)
    listed, unknown = [], []
    for topic, groups, ages_s in zip(page.topics, lags, ages, strict=True):
        named = {"owner": topic.owner, "topic": topic.name}
        if groups is None:
            unknown.append(named)
            continue
        listed += [named | shown for shown in _listed(groups, ages_s)]
    return Answer({"groups": listed, "unknown": unknown, "next": page.next})


async def list_groups(call: Call) -> Answer:
    """Groups that the caller may see, with their lag."""
    topic = topic_of(call, Permission.DESCRIBE_TOPIC)
    figures = call.broker.lag_figures
    found = await figures.of_topic(call.caller, topic)
    return Answer({"groups": _listed(found, await figures.ages(topic, found))})


async def get_group(call: Call) -> Answer:
    """Progress of one group by partition."""
    topic, group = topic_of(call, Permission.DESCRIBE_TOPIC), call.places["group"]
    query = call.query
    order = Order(query.get("order", Order.PARTITION))
    window = Window(query.get("from", 0), query.get("limit", PARTITIONS_MAX), order)
    found = await call.broker.lag_figures.of_group(call.caller, group, topic, window)
    return Answer(_group(group, found))


async def explain_group(call: Call) -> Answer:
    """Why the group does not move."""
    call.exchange.extend(EXPLAIN_S)
    topic, group = topic_of(call, Permission.DESCRIBE_TOPIC), call.places["group"]
    explain = call.broker.observing.explanations.explain
    return Answer(_explained(group, await explain(call.caller, group, topic.resource)))


async def delete_group(call: Call) -> Answer:
    """Delete the group's checkpoints."""
    topic = topic_of(call, Permission.GET_MESSAGE)
    await call.broker.consumers.delete_group(call.caller, call.places["group"], topic.resource)
    return Answer()


async def reset_group(call: Call) -> Answer:
    """Reset the checkpoints, or show what they would be."""
    call.exchange.extend(RESET_S)
    topic = topic_of(call, Permission.GET_MESSAGE)
    done = await call.broker.group_resets.reset(
        call.caller,
        call.places["group"],
        topic.resource,
        _target(call.document["to"]),
        dry_run=call.document.get("dry_run", False),
    )
    return Answer({"partitions": [reset._asdict() for reset in done]})


def _explained(group: str, found: Explanation) -> dict[str, Any]:
    reasons = [
        {
            "code": reason.code.value,
            "level": reason.level.value,
            "partitions": list(reason.partitions),
            "partitions_count": reason.partitions_count,
            "text": reason.text,
            "advice": reason.advice,
            "figures": reason.figures,
        }
        for reason in found.reasons
    ]
    return {
        "group": group,
        "state": found.state.value,
        "lag": found.lag,
        "workers": found.workers,
        "reasons": reasons,
    }


def _target(to: Any) -> ResetTarget:
    if isinstance(to, str):
        return ResetTo(to)
    if "time_ms" in to:
        return ResetTime(to["time_ms"])
    return ResetOffsets(offsets_of(to["offsets"]))


def offsets_of(sent: dict[str, Any]) -> dict[int, int]:
    """Checkpoints by partition."""
    return {int(partition): offset for partition, offset in sent.items()}


def offsets_schema() -> Any:
    """Checkpoints by partition, as a commit sends them."""
    return table(integer(), _NUMBER, minimum=1, maximum=PARTITIONS_MAX)


def _listed(
    groups: Mapping[str, LagSummary], ages_s: Mapping[str, float | None]
) -> list[dict[str, Any]]:
    return [{"group": group, **_sums(groups[group], ages_s.get(group))} for group in sorted(groups)]


def _sums(summary: LagSummary, age_s: float | None) -> dict[str, Any]:
    return {
        "lag": None if summary.damaged else summary.lag,
        "lag_s": age_s,
        "lag_max": None if summary.damaged else summary.most,
        "behind": summary.behind,
        "damaged": summary.damaged,
    }


def _group(group: str, found: GroupFigures) -> dict[str, Any]:
    partitions = [
        {
            "partition": unit.partition,
            "checkpoint": unit.checkpoint,
            "lag": unit.lag,
            "worker": unit.worker,
            "address": unit.address,
        }
        for unit in found.shown
    ]
    members = [
        {
            "worker": member.worker,
            "address": member.address,
            "partitions": list(member.partitions),
            "partitions_count": member.count,
            "lag": member.lag,
        }
        for member in found.members
    ]
    return {
        "group": group,
        **_sums(found.summary, found.age_s),
        "held": found.held,
        "members": members,
        "members_count": found.members_count,
        "partitions_count": found.partitions,
        "partitions": partitions,
    }


_TAG = "groups"
_PATH = "topics/{topic}/groups"
_GROUPS = {"group": text(GROUP, about="Consumer group; another tenant's is TENANT/NAME.")}
_NAMED = {"owner": text(), "topic": text()}
ROUTES = (
    Route(
        method="GET", path="groups", handler=list_all_groups, tag=_TAG,
        summary="List the consumer groups of the topics that the caller may see, with their lag.",
        query={
            "after": AFTER,
            "limit": integer(
                1, TOPICS_MAX, about=f"Topics whose groups are listed; default {TOPICS_MAX}."
            ),
        },
        reply=fields(
            groups=items(fields(**_NAMED, group=text(), **_SUMS)),
            unknown=items(fields("A topic whose groups cannot be read now.", **_NAMED)),
            next=text(about="Send it as `after`, also after an empty page; empty: the end."),
        ),
        notes="By name of the topic.",
    ),
    Route(
        method="GET", path=_PATH, handler=list_groups, tag=_TAG,
        summary="List the consumer groups of a topic with their lag.",
        reply=fields(groups=items(fields(group=text(), **_SUMS))),
    ),
    Route(
        method="GET", path=_PATH + "/{group}", handler=get_group, tag=_TAG,
        summary="Show checkpoint, lag and worker of each partition.", reply=_GROUP, places=_GROUPS,
        query={
            "order": one_of(*(order.value for order in Order), about="By lag: the greatest first."),
            "from": integer(0, PARTITIONS_MAX, about="So many are left out at the begin."),
            "limit": integer(0, PARTITIONS_MAX, about="At most so many are listed; default all."),
        },
        notes="With more than 500 partitions, their ends may be 2 s old. The sums are always of "
        "all partitions.",
    ),
    Route(
        method="GET", path=_PATH + "/{group}/explain", handler=explain_group, tag=_TAG,
        summary="Explain why a group does not move: reasons, and what to do.",
        reply=_EXPLANATION, places=_GROUPS,
        notes="The most important reason comes first. What workers did before the group's "
        "coordinator started, or took it over, is not known: times without a commit count from "
        "then.",
    ),
    Route(
        method="DELETE", path=_PATH + "/{group}", handler=delete_group, tag=_TAG, status=204,
        summary="Delete a group without workers.", statuses=(409,), places=_GROUPS,
    ),
    Route(
        method="POST", path=_PATH + "/{group}/reset", handler=reset_group, tag=_TAG,
        summary="Reset the checkpoints of a group; with dry_run, show the result only.",
        notes=(
            "offsets are checkpoints: offsets of the last processed message. A checkpoint of -1 "
            "means none; the consumer then decides where it starts. Leases of the partitions are "
            "revoked."
        ),
        body=Body(fields(to=_TO, optional={"dry_run": boolean()})),
        reply=fields(partitions=items(_RESET)), statuses=(409, 422), places=_GROUPS,
    ),
)  # fmt: skip
