"""What the calls of one caller are about: a topic and a table with grants, groups, a principal."""

import http.client
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any
from urllib.parse import quote

from tests.e2e.access import callers
from tests.e2e.access.callers import (
    APP_RIGHTS,
    BOUND_ORGANISATION,
    BOUND_TEAM,
    MEMBER,
    ORGANISATION,
    OWNER,
    PUTTER,
    TABLE_GRANTS,
    TEAM_RIGHTS,
    TOPIC_GRANTS,
)
from tests.e2e.access.model import Caller, Resource, Right, World
from tests.e2e.rest.client import Listening, authorization, rest
from tests.raw_client import RawClient, idl
from tests.server_process import ROOT_KEY, Key
from tests.waiting import eventually, scale

# Of a person; of an organisation; of a person, granted to everybody; bound to an organisation.
KINDS = ("person", "organisation", "public", "bound")
EXPIRES_S = 3  # longer than it takes to create a key
KEPT, DONE = "kept", "done"  # groups of the owner
COLUMNS = {"k": "string", "v": "string", "n": "int64"}
NUMBERS = count(1)  # names of one process are used once


@dataclass
class Stage:
    """See the lines for how the attributes are used; ``my_…`` are the caller's."""

    world: World
    topic_name: str
    resource: str
    table_name: str
    victim: str
    victims_key: str
    me: str = ""
    my_key: str = "none"
    my_new_key: str = "none"
    worker: str = "none"
    group: str = "mine"
    kept_group: str = KEPT
    done_group: str = DONE
    grantee: str = PUTTER

    @property
    def topic_path(self) -> str:
        return f"{self.world.topic.owner}/{self.topic_name}"

    @property
    def spare_topic_path(self) -> str:
        return f"{self.world.topic.owner}/x{self.topic_name}"

    @property
    def table_path(self) -> str:
        return f"{self.world.table.owner}/{self.table_name}"

    @property
    def spare_table_path(self) -> str:
        return f"{self.world.table.owner}/x{self.table_name}"

    @property
    def kept_group_path(self) -> str:
        return f"{self.world.topic.owner}/{KEPT}"

    @property
    def organisation(self) -> str:
        return self.world.organisation

    @property
    def tenant(self) -> str:
        return self.world.tenant

    def fresh(self) -> str:
        """A name that nothing has."""
        return f"n{next(NUMBERS)}"

    def absent(self) -> "Stage":
        """The same names of things that are not there."""
        uuid = self.resource.rpartition("#")[2]
        name = "m" + self.topic_name[1:]
        resource = f"{self.world.topic.owner}#{name}#{'0' * len(uuid)}"
        return replace(
            self, topic_name=name, resource=resource, table_name="m" + self.table_name[1:]
        )

    def for_caller(self, caller: Caller, key: Key) -> "Stage":
        """With the caller's own names."""
        return replace(self, me=caller.id or "nobody", my_key=key.key_id)

    def learn(self, document: Any) -> None:
        """Names that later calls use, from a reply of REST."""
        if isinstance(document, dict):
            self.worker = document.get("worker", self.worker)
            if "secret" in document and document.get("key_id", "") != self.victims_key:
                self.my_new_key = document["key_id"]


class Theatre:
    """One server with all callers. Everything is prepared by the administrator over REST."""

    def __init__(self, server: Listening) -> None:
        self.server = server
        self.keys: dict[str, Key] = {"root": ROOT_KEY}
        self._limited: dict[str, Key] = {}  # by kind of caller
        self._expiring: list[Key] = []
        for caller in callers.CALLERS:
            if caller.id and caller.id not in self.keys:
                self.keys[caller.id] = self._principal(caller)
            if caller.scopes or caller.networks or caller.expired:
                self._limited[caller.kind] = self._limited_key(caller)
        eventually("keys with an end expire", self._expired)
        self.must("PATCH", "principals/dave", {"disabled": True})
        self.must("DELETE", f"keys/{self.keys['dora'].key_id}")

    def must(self, method: str, path: str, document: Any = None, key: Key = ROOT_KEY) -> Any:
        """A call that has to succeed."""
        reply = rest(self.server, method, path, document, authorization(key))
        assert reply.status < 300, (method, path, reply)
        return reply.document

    def key_of(self, caller: Caller) -> Key:
        """What the caller signs with; for one that is not known, something invalid."""
        key = self.keys.get(caller.id, Key("AKNOBODY", "no secret of anybody here"))
        key = self._limited.get(caller.kind, key)
        return Key(key.key_id, "wrong") if "wrong" in caller.kind else key

    def stage(self, kind: str) -> Stage:
        """New resources of a person or organisation: see ``KINDS``."""
        number = next(NUMBERS)
        creator = self.keys[MEMBER.id if kind == "organisation" else OWNER.id]
        topic_name, table_name = f"t{number}t", f"s{number}s"
        resource, spare = (
            self._topic(name, creator, kind == "public") for name in (topic_name, "x" + topic_name)
        )
        for name in (table_name, "x" + table_name):
            self._table(name, creator, kind == "public")
        victim = f"victim{number}v"
        self.must("POST", "principals", {"id": victim})
        key = self.must("POST", f"principals/{victim}/keys")
        bound = kind == "bound"
        if bound:
            self._bind(resource)
            self._bind(spare)
        made = Stage(
            _world(kind, bound=bound), topic_name, resource, table_name, victim, key["key_id"]
        )
        self._fill(made)
        return made

    def state(self, stage: Stage) -> Sequence[str]:
        """All that a forbidden call might have changed, one text for each part."""
        topic, table = quote(stage.topic_path, safe=""), quote(stage.table_path, safe="")
        paths = [
            "topics?scope=visible",
            f"topics/{topic}",
            f"topics/{topic}/permissions",
            f"topics/{topic}/quota",
            f"topics/{topic}/groups",
            f"topics/{topic}/groups/{KEPT}",
            "tables",
            f"tables/{table}",
            f"tables/{table}/streams",
            f"principals/{stage.victim}",
            "quotas/users",
            "quota-requests",
            "quota-projections",
        ]
        found = {path: _steady(self.must("GET", path)) for path in paths}
        found["rows"] = self.must("POST", f"tables/{table}/rows/scan", {})
        return [f"{path}: {json.dumps(document)}" for path, document in found.items()]

    def discard_keys(self, caller: Caller) -> None:
        """Keys that a caller made for itself: a principal has two at most."""
        if not caller.known or caller.anonymous:
            return
        kept = {key.key_id for key in (*self.keys.values(), *self._limited.values())}
        for key in self.must("GET", f"principals/{caller.id}/keys")["keys"]:
            if not key["disabled"] and key["key_id"] not in kept:
                self.must("DELETE", f"keys/{key['key_id']}")

    def _principal(self, caller: Caller) -> Key:
        names = {
            "id": caller.id, "organisation": caller.organisation, "team": caller.team,
            "role": caller.role,
        }  # fmt: skip
        self.must("POST", "principals", {name: text for name, text in names.items() if text})
        made = self.must("POST", f"principals/{caller.id}/keys")
        return Key(made["key_id"], made["secret"])

    def _limited_key(self, caller: Caller) -> Key:
        limits: dict[str, Any] = {
            "scopes": list(caller.scopes), "addresses": list(caller.networks),
        }  # fmt: skip
        if caller.expired:
            end_s = time.time() + EXPIRES_S * scale()  # the claim is about time
            limits["expires_ms"] = int(end_s * 1000)
        made = self.must("POST", f"principals/{caller.id}/keys", limits)
        key = Key(made["key_id"], made["secret"])
        if caller.expired:
            self._expiring.append(key)
        return key

    def _expired(self) -> bool:
        asked = (rest(self.server, "GET", "principals", None, authorization(key))
                 for key in self._expiring)  # fmt: skip
        return all(reply.status == http.client.UNAUTHORIZED for reply in asked)

    def _topic(self, name: str, creator: Key, public: bool) -> str:
        grantee, topic = idl("authorization").Grantee, idl("topic")
        acl = {grantee(1, who): int(may) for who, may in TOPIC_GRANTS.items() if not public}
        if public:
            acl[grantee(4, "guest")] = int(Right.GET | Right.DESCRIBE)
        request = topic.CreateTopicRequest(name, topic.TopicAttribute(partitionNumber=1))
        request.aclMap = acl
        client = RawClient(self.server.port, creator)
        try:
            made = client.call("topic", "createTopic", request)
        finally:
            client.close()
        return str(made.topicInfo.topicTalosResourceName.topicTalosResourceName)

    def _table(self, name: str, creator: Key, public: bool) -> None:
        apps = {"anybody": ["public-read"]} if public else APP_RIGHTS
        document = {"name": name, "key": ["k"], "columns": COLUMNS, "apps": apps}
        self.must("POST", "tables", document | ({} if public else {"teams": TEAM_RIGHTS}), creator)

    def _bind(self, resource: str) -> None:
        topic = idl("topic")
        name = topic.TopicTalosResourceName(resource)
        client = RawClient(self.server.port)
        try:
            request = topic.AddSubResourceNameRequest(name, BOUND_ORGANISATION, BOUND_TEAM)
            client.call("topic", "addSubResourceName", request)
        finally:
            client.close()

    def _fill(self, stage: Stage) -> None:
        topic, table = quote(stage.topic_path, safe=""), quote(stage.table_path, safe="")
        self.must("POST", f"topics/{topic}/messages", {"messages": [{"text": "m"}]})
        for group in (KEPT, DONE):
            workers = f"topics/{topic}/groups/{group}/workers"
            worker = self.must("POST", workers)["worker"]
            self.must("GET", f"{workers}/{worker}/messages")
            self.must("POST", f"{workers}/{worker}/commits", {"offsets": {"0": 0}})
            self.must("DELETE", f"{workers}/{worker}")
        self.must("POST", f"tables/{table}/rows/put", {"row": {"k": "row", "v": "value", "n": 1}})
        self.must("PUT", f"tables/{table}/streams/{stage.topic_name}", {})
        self.must("PUT", f"quotas/users/{stage.victim}", {"put_requests_per_s": 100_000})
        projection = {
            "tenant": stage.tenant, "made_ms": 1, "days": 1, "level": 1, "trend_per_day": 0,
            "season": [1000] * 7, "spread": 0, "peak": 1,
        }  # fmt: skip
        self.must("PUT", "quota-projections", {"projections": [projection]})


def _steady(document: Any) -> Any:
    """Without sizes, which the server also changes by itself."""
    if isinstance(document, dict):
        kept = {name: part for name, part in document.items() if not name.endswith("bytes")}
        return {name: _steady(part) for name, part in kept.items()}
    return [_steady(part) for part in document] if isinstance(document, list) else document


def _world(kind: str, *, bound: bool) -> World:
    owner = ORGANISATION if kind == "organisation" else OWNER.id
    if kind == "public":
        topic = Resource(owner, guests=Right.GET | Right.DESCRIBE)
        table = Resource(owner, everybody=Right.READ | Right.DESCRIBE)
        return World(topic, replace(table, guests=table.everybody), ORGANISATION, owner)
    topic = Resource(owner, TOPIC_GRANTS)
    if bound:
        topic = replace(topic, bound_organisation=BOUND_ORGANISATION, bound_team=BOUND_TEAM)
    return World(topic, Resource(owner, TABLE_GRANTS), ORGANISATION, owner)
