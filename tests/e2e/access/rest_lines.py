"""Every REST route: which right it needs. Written from the OpenAPI descriptions and
docs/operating/tenants.md. A line's arguments are a path below /rest/v1 and a document."""

from typing import Any
from urllib.parse import quote

from tests.e2e.access import model
from tests.e2e.access.callers import PUTTER
from tests.e2e.access.model import Line, Need, Right, any_right_on_topic, each, table, topic

DESCRIBE, CHANGE, GRANT = topic(Right.DESCRIBE), topic(Right.CHANGE), topic(Right.GRANT)
GET, PUT = topic(Right.GET), topic(Right.PUT)
SEES_TABLE, ALTER = table(Right.DESCRIBE), table(Right.ALTER)
READ, WRITE = table(Right.READ), table(Right.WRITE)
OF_OTHERS = each(model.manages, model.administrator)
LOOK, BILL = model.role("viewer", "operator"), model.role("billing")
LOOK_OR_BILL = model.role("viewer", "operator", "billing")
OPERATE = model.role("operator")
ALONE = "this is a single server"
KEY, ROW = {"k": "row"}, {"k": "row", "v": "value"}
OWNERS = model.of_owners_groups
NO_GROUP = ("TopicNotExist", "ConsumerGroupNotExist")
MESSAGES = {"messages": [{"text": "m"}]}
NEW_TABLE = {"key": ["k"], "columns": {"k": "string", "v": "string"}}
RATES = {"put_requests_per_s": 100_000}
PROJECTION = {
    "tenant": "somebody", "made_ms": 1, "days": 1, "level": 1, "trend_per_day": 0,
    "season": [1000] * 7, "spread": 0, "peak": 1,
}  # fmt: skip


def path(text: str, document: Any = None, query: str = "") -> Any:
    """A path with attributes of the stage in braces; each is percent-encoded."""

    def arguments(stage: Any) -> tuple[str, Any]:
        parts = [
            quote(str(getattr(stage, part[1:-1])), safe="") if part.startswith("{") else part
            for part in text.split("/")
        ]
        return "/".join(parts) + query, document

    return arguments


def fresh(text: str, field: str, name: str, document: Any) -> Any:
    """Something new: ``field`` of the document is a name nobody has."""
    return lambda stage: (text, {**document, field: name.format(stage.fresh())})


def rest(route: str, need: Need, document: Any = None, **more: Any) -> Line:
    """A line whose path is the route's, with the stage's attributes of the same meaning."""
    text = route.partition(" ")[2]
    for variable, attribute in (
        ("{topic}", "{topic_path}"), ("{table}", "{table_path}"), ("{partition}", "0"),
        ("{id}", "{victim}"), ("{user}", "{victim}"), ("{grantee}", "newcomer"),
        ("{tenant}", "{tenant}"), ("{name}", "{organisation}"), ("{server}", "nowhere"),
    ):  # fmt: skip
        text = text.replace(variable, attribute)
    arguments = more.pop("arguments", None) or path(text, document, more.pop("query", ""))
    return Line(route, need, arguments, **more)


TOPICS = "topics/{topic}"
TOPIC_LINES = (
    rest("GET openapi.json", model.anybody, public=True),
    rest("GET status", model.anybody, sees=model.sees_topic),
    rest("GET topics", model.anybody, sees=model.sees_owned, variant="owned"),
    rest(
        "GET topics", model.anybody, query="?scope=visible", sees=model.sees_topic,
        variant="visible",
    ),
    rest(
        "POST topics", model.manages,
        arguments=fresh("topics", "name", "new-{}", {"partitions": 1}),
    ),
    rest(
        "POST topics", OF_OTHERS, variant="of another organisation",
        arguments=fresh("topics", "name", "CLempty/new-{}", {"partitions": 1}),
    ),
    rest(f"GET {TOPICS}", DESCRIBE),
    rest(f"PATCH {TOPICS}", CHANGE, {"attributes": {"colour": "blue"}}),
    rest(f"GET {TOPICS}/offsets", GET),
    rest(f"POST {TOPICS}/messages", PUT, MESSAGES),
    rest(f"POST {TOPICS}/partitions/{{partition}}/messages", PUT, MESSAGES),
    rest(f"GET {TOPICS}/partitions/{{partition}}/messages", GET),
    rest(f"GET {TOPICS}/events", GET, query="?from=start"),
    rest(f"GET {TOPICS}/permissions", DESCRIBE, sees=model.sees_grants(PUTTER), shown="grantee"),
    rest(f"PUT {TOPICS}/permissions/{{grantee}}", GRANT, {"permissions": ["GET_MESSAGE"]}),
    rest(f"DELETE {TOPICS}/permissions/{{grantee}}", GRANT),
    rest(f"PUT {TOPICS}/acceptance", each(any_right_on_topic, model.manages_itself)),
    rest(f"DELETE {TOPICS}/acceptance", each(any_right_on_topic, model.manages_itself)),
    rest(f"PUT {TOPICS}/quota", CHANGE, RATES),
    rest(f"GET {TOPICS}/quota", CHANGE),
    rest(f"DELETE {TOPICS}/quota", CHANGE),
    rest(f"GET {TOPICS}/usage", topic(Right.ALL), query="?partition=0"),
    rest(
        f"DELETE {TOPICS}", CHANGE, arguments=path("topics/{spare_topic_path}"), last=True
    ),
)  # fmt: skip

GROUPS, WORKERS = f"{TOPICS}/groups", f"{TOPICS}/groups/{{group}}/workers"
ONE = f"{GROUPS}/{{group}}"
WORKING = "topics/{topic_path}/groups/rest/workers"
OF_OWNER = "topics/{topic_path}/groups/{kept_group_path}"
TO_START = {"to": "start"}
GROUP_LINES = (
    rest("GET groups", model.anybody),
    rest(f"GET {GROUPS}", DESCRIBE),
    rest(f"POST {WORKERS}", GET, arguments=path(WORKING)),
    rest(
        f"GET {WORKERS}/{{worker}}/messages", GET, arguments=path(f"{WORKING}/{{worker}}/messages")
    ),
    rest(
        f"POST {WORKERS}/{{worker}}/commits", GET,
        arguments=path(f"{WORKING}/{{worker}}/commits", {"offsets": {"0": 0}}),
    ),
    rest(f"POST {WORKERS}/{{worker}}/renew", GET, arguments=path(f"{WORKING}/{{worker}}/renew")),
    rest(f"DELETE {WORKERS}/{{worker}}", GET, arguments=path(f"{WORKING}/{{worker}}")),
    rest(f"GET {ONE}", DESCRIBE, arguments=path("topics/{topic_path}/groups/{kept_group}")),
    rest(
        f"GET {ONE}/explain", DESCRIBE,
        arguments=path("topics/{topic_path}/groups/{kept_group}/explain"),
    ),
    rest(
        f"GET {ONE}", each(DESCRIBE, model.hidden_unless(OWNERS)), variant="of the owner",
        arguments=path(OF_OWNER), hidden=NO_GROUP,
    ),
    rest(
        f"POST {ONE}/reset", each(GET, DESCRIBE),
        arguments=path("topics/{topic_path}/groups/rest/reset", TO_START),
    ),
    rest(
        f"POST {ONE}/reset", each(GET, DESCRIBE, OWNERS), variant="of the owner",
        arguments=path(f"{OF_OWNER}/reset", TO_START),
    ),
    rest(f"DELETE {ONE}", GET, arguments=path("topics/{topic_path}/groups/rest")),
    rest(
        f"DELETE {ONE}", each(GET, OWNERS), variant="of the owner", arguments=path(OF_OWNER)
    ),
)  # fmt: skip

TABLES, ROWS, STREAMS = "tables/{table}", "tables/{table}/rows", "tables/{table}/streams"
STREAM = f"{STREAMS}/{{topic}}"
BOTH = each(ALTER, PUT)  # who sends changes to a topic must be able to put there
TABLE_LINES = (
    rest("GET tables", model.anybody, sees=model.sees_table, shown="table_name"),
    rest("POST tables", model.manages, arguments=fresh("tables", "name", "new{}", NEW_TABLE)),
    rest(
        "POST tables", OF_OTHERS, variant="of another organisation",
        arguments=fresh("tables", "name", "CLempty/new{}", NEW_TABLE),
    ),
    rest(f"GET {TABLES}", SEES_TABLE),
    rest(f"POST {ROWS}/put", WRITE, {"row": ROW}),
    rest(f"POST {ROWS}/get", READ, {"key": KEY}),
    rest(f"POST {ROWS}/increment", WRITE, {"key": KEY, "amounts": {"n": 1}}),
    rest(f"POST {ROWS}/scan", READ, {}),
    rest(f"POST {ROWS}/batch", READ, {"items": [{"get": {"key": KEY}}]}, variant="of gets"),
    rest(f"POST {ROWS}/batch", WRITE, {"items": [{"put": {"row": ROW}}]}, variant="of puts"),
    rest(
        f"POST {ROWS}/batch", WRITE, {"items": [{"remove": {"key": KEY}}]}, variant="of removes"
    ),
    rest(f"POST {ROWS}/remove", WRITE, {"key": KEY}),
    rest(f"GET {STREAMS}", SEES_TABLE),
    rest(
        f"PUT {STREAM}", BOTH,
        arguments=path("tables/{table_path}/streams/{topic_name}", {"view": "keys-only"}),
    ),
    rest(
        f"GET {STREAM}", SEES_TABLE, arguments=path("tables/{table_path}/streams/{topic_name}")
    ),
    rest(f"DELETE {STREAM}", ALTER, arguments=path("tables/{table_path}/streams/{topic_name}")),
    rest(f"POST {TABLES}/disable", ALTER),
    rest(f"POST {TABLES}/enable", ALTER),
    rest(f"PUT {TABLES}/acceptance", each(SEES_TABLE, model.manages_itself)),
    rest(f"DELETE {TABLES}/acceptance", each(SEES_TABLE, model.manages_itself)),
    rest(f"PATCH {TABLES}", ALTER, {"description": "changed"}),
    rest(
        f"PATCH {TABLES}", each(ALTER, table(Right.GRANT)), {"apps": {"newcomer": ["app-read"]}},
        variant="of rights",
    ),
    rest(f"DELETE {TABLES}", ALTER, arguments=path("tables/{spare_table_path}"), last=True),
)  # fmt: skip

SEES_ALL = {"sees": model.sees_as(LOOK_OR_BILL), "shown": "victim"}
SEES_OTHERS = model.hidden_without(LOOK_OR_BILL)
NO_PRINCIPAL = ("PrincipalNotExist",)
PERSON = "principals/{id}"
TENANT_LINES = (
    rest("GET quota", model.anybody),
    rest("GET audit", model.looks),
    rest("GET invoices", model.anybody),
    rest(
        "GET invoices/{month}/{tenant}", model.anybody, arguments=path("invoices/2026-03/{victim}"),
        fails="this server shows no invoices",
    ),
    rest("POST session", model.any_key),
    rest("GET session", model.any_key),
    rest("DELETE session", model.any_key, fails="a key has no session to end"),
    rest("PUT quotas/users/{user}", BILL, RATES),
    rest("GET quotas/users", LOOK_OR_BILL, **SEES_ALL),
    rest("DELETE quotas/users/{user}", BILL),
    rest(
        "POST quota-requests", each(model.member, model.manages),
        arguments=lambda stage: (
            "quota-requests", {"organisation": stage.world.organisation, "total": 9},
        ),
    ),
    rest("GET quota-requests", model.anybody),
    rest("GET quotas/organisations", model.anybody),
    rest("POST quota-requests/{name}/approve", BILL, {"total": 10**6}),
    rest("POST quota-requests/{name}/revoke", BILL),
    rest("PUT quota-projections", BILL, {"projections": [PROJECTION]}),
    rest("GET quota-projections", model.anybody),
    rest(
        "GET quota-projections/{tenant}", model.hidden_without(model.of_tenant, LOOK_OR_BILL),
        hidden=("QuotaNotExist",),
    ),
    rest("GET principals", model.anybody, **SEES_ALL),
    rest(
        "POST principals", model.administrator,
        arguments=fresh("principals", "id", "new-{}", {"admin": False}),
    ),
    rest(f"GET {PERSON}", SEES_OTHERS, hidden=NO_PRINCIPAL, variant="another"),
    rest(f"GET {PERSON}", model.anybody, arguments=path("principals/{me}"), variant="oneself"),
    rest(f"PATCH {PERSON}", model.administrator, {"refuse_replays": True}),
    rest(
        f"PATCH {PERSON}", model.administrator, variant="oneself",
        arguments=path("principals/{me}", {"disabled": False}),
    ),
    rest(
        f"GET {PERSON}/keys", SEES_OTHERS, hidden=NO_PRINCIPAL, variant="another"
    ),
    rest(
        f"GET {PERSON}/keys", model.anybody, arguments=path("principals/{me}/keys"),
        variant="oneself",
    ),
    rest(
        f"POST {PERSON}/keys", model.manages_own_keys, arguments=path("principals/{me}/keys"),
        variant="oneself",
    ),
    rest(
        "PATCH keys/{key_id}", model.manages_own_keys, variant="oneself",
        arguments=path("keys/{my_key}", {"expires_ms": 0}),
    ),
    rest(
        "PATCH keys/{key_id}", each(model.administrator, model.unlimited_key), variant="another",
        arguments=path("keys/{victims_key}", {"expires_ms": 0}),
    ),
    rest(
        "DELETE keys/{key_id}", model.manages_own_keys, arguments=path("keys/{my_new_key}"),
        variant="oneself",
    ),
    rest(
        "POST keys/{key_id}/rotate", model.manages_own_keys, arguments=path("keys/{my_key}/rotate"),
        variant="oneself",
    ),
    rest(
        "POST keys/{key_id}/rotate", each(model.administrator, model.unlimited_key),
        arguments=path("keys/{victims_key}/rotate"), variant="another",
    ),
    rest(
        "DELETE keys/{key_id}", model.administrator, arguments=path("keys/{victims_key}"),
        variant="another",
    ),
    rest(f"POST {PERSON}/keys", model.administrator, variant="another"),
)  # fmt: skip

ENCRYPTION_LINES = (
    rest("GET encryption", LOOK),
    rest(
        "POST encryption/rotation", model.administrator, {}, fails="encryption is not enabled",
    ),
)  # fmt: skip

LEASE, HELD = "leases/{lease}", {"holder": "host:1", "ttl_ms": 60_000}
OF_ANOTHER = "?tenant=CLempty"
TAKE, SEE = each(model.coordinates, model.administrator), each(model.looks, model.administrator)
LEASE_LINES = (
    rest(f"PUT {LEASE}", model.coordinates, arguments=path("leases/run", HELD)),
    rest(
        f"PUT {LEASE}", TAKE, variant="of another tenant",
        arguments=path("leases/run", HELD, OF_ANOTHER),
    ),
    rest("GET leases", model.looks),
    rest("GET leases", SEE, query=OF_ANOTHER, variant="of another tenant"),
    rest(f"GET {LEASE}", model.looks, arguments=path("leases/run")),
    rest(
        f"GET {LEASE}", SEE, variant="of another tenant",
        arguments=path("leases/run", None, OF_ANOTHER),
    ),
    rest(f"DELETE {LEASE}", model.coordinates, arguments=path("leases/run")),
    rest(
        f"DELETE {LEASE}", TAKE, variant="of another tenant",
        arguments=path("leases/run", None, OF_ANOTHER),
    ),
)  # fmt: skip

CLUSTER_LINES = (
    rest("GET series", model.anybody),
    rest("GET series/metrics", model.anybody),
    rest("GET health", LOOK),
    rest("GET cluster", LOOK),
    rest("GET cluster/ring", LOOK, fails=ALONE),
    rest("POST cluster/ring/previews", LOOK, {"servers": {"nowhere": 3}}, fails=ALONE),
    rest("GET cluster/partitions", LOOK, fails=ALONE),
    rest("PUT cluster/weights", OPERATE, {"servers": {"nowhere": 3}}, fails=ALONE),
    rest("POST cluster/servers/{server}/drain", OPERATE, fails=ALONE),
    rest("DELETE cluster/servers/{server}/drain", OPERATE, fails=ALONE),
    rest("GET cluster/topics/{topic}", LOOK, fails=ALONE),
    rest(
        "POST cluster/weights/proposals", LOOK, {"days": [{"uuid": [1]}]},
        fails=ALONE,
    ),
)  # fmt: skip

LINES = (
    *TOPIC_LINES, *GROUP_LINES, *TABLE_LINES, *TENANT_LINES, *ENCRYPTION_LINES, *LEASE_LINES,
    *CLUSTER_LINES,
)  # fmt: skip
