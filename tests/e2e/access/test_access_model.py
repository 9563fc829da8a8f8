"""Every RPC and route as every kind of caller: the server does what the model says.

The model is in ``model.py``, what each call needs in the three tables of lines, the callers in
``callers.py``. Per caller, the calls that the model forbids come first, and must change nothing.
"""

from collections.abc import Iterator, Sequence

import pytest
from tests.e2e.access import rest_lines, sds_lines, talos_lines
from tests.e2e.access.callers import (
    ADMINISTRATOR,
    BOUND_ORGANISATION,
    CALLERS,
    GRANTEE,
    MEMBER,
    ORGANISATION,
    OWNER,
    TABLE_GRANTS,
)
from tests.e2e.access.calls import LINES, Answer, Channel
from tests.e2e.access.model import Caller, Line, Outcome, expected
from tests.e2e.access.stage import KINDS, Stage, Theatre
from tests.server_process import ServerProcess

from opentalos.gateway.rest.routes import TABLE
from opentalos.gateway.sds_http.handlers import HANDLERS as SDS_HANDLERS
from opentalos.gateway.thrift_http.handlers import HANDLERS as TALOS_HANDLERS

CONFIG = """
[auth]
anonymous = true
failures_max = 1000000
denial_log_per_s_max = 1
[quota]
tenant_changes_per_s = 0
user_topics = 0
[sds]
user_tables = 10000
"""


PLAYED = {ORGANISATION: "organisation", BOUND_ORGANISATION: "bound"}


def plays(kind: str, caller: Caller) -> bool:
    """Whether a stage shows something about a caller that no other one shows."""
    if not caller.known or caller.scopes or caller.networks:
        return kind == PLAYED.get(caller.organisation, "person")
    if caller.role not in ("user", "viewer"):
        return kind in ("person", "organisation")
    if kind in ("person", "organisation"):
        return True
    # On public and bound resources, whoever has no grant of its own.
    return not {caller.id, caller.team, caller.organisation} & set(TABLE_GRANTS)


CASES = [(kind, caller) for kind in KINDS for caller in CALLERS if plays(kind, caller)]


@pytest.fixture(scope="module")
def theatre(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Theatre]:
    server = ServerProcess(tmp_path_factory.mktemp("access"), config=CONFIG)
    server.start()
    try:
        yield Theatre(server)
    finally:
        server.kill()


def rpcs(handlers: object) -> set[str]:
    assert isinstance(handlers, dict)
    return {
        f"{service.removesuffix('Service').lower()}.{rpc}"
        for service, methods in handlers.items()
        for rpc in methods
    }


def names(lines: Sequence[Line]) -> set[str]:
    return {line.name for line in lines}


def test_the_model_has_every_rpc_and_route() -> None:
    assert names(talos_lines.LINES) == rpcs(TALOS_HANDLERS)
    assert names(sds_lines.LINES) == rpcs(SDS_HANDLERS)
    assert names(rest_lines.LINES) == {f"{route.method} {route.path}" for route in TABLE.routes}


@pytest.mark.parametrize(("kind", "caller"), CASES, ids=lambda part: getattr(part, "kind", part))
def test_a_caller_may_do_what_the_model_says_and_nothing_else(
    theatre: Theatre, kind: str, caller: Caller
) -> None:
    stage = theatre.stage(kind).for_caller(caller, theatre.key_of(caller))
    channel = Channel(theatre.server.port, caller, theatre.key_of(caller))
    wanted = {line: expected(caller, line, stage.world) for line in LINES}
    forbidden = [line for line in LINES if wanted[line] is not Outcome.PERMITTED]
    before = theatre.state(stage)
    try:
        differences = [
            found
            for line in forbidden
            if (found := difference(line, wanted[line], channel.call(line, stage)))
        ]
        after = theatre.state(stage)
        differences += [f"changed: {was} -> {is_}" for was, is_ in pairs(before, after)]
        for line in sorted(wanted.keys() - set(forbidden), key=order):
            answer = channel.call(line, stage)
            stage.learn(answer.document)
            differences += filter(None, [difference(line, wanted[line], answer)])
            differences += filter(None, [shown_wrongly(line, caller, stage, answer)])
    finally:
        channel.close()
        theatre.discard_keys(caller)
    assert not differences, "\n".join(differences)


@pytest.mark.parametrize("kind", ["person", "organisation"])
def test_each_call_succeeds_for_somebody(theatre: Theatre, kind: str) -> None:
    failed: dict[str, str] = {}
    done: set[str] = set()
    owner = OWNER if kind == "person" else MEMBER
    for caller in (owner, ADMINISTRATOR, GRANTEE):
        stage = theatre.stage(kind).for_caller(caller, theatre.key_of(caller))
        channel = Channel(theatre.server.port, caller, theatre.key_of(caller))
        for line in sorted(LINES, key=order):
            if expected(caller, line, stage.world) is Outcome.PERMITTED:
                answer = channel.call(line, stage)
                stage.learn(answer.document)
                if answer.error:
                    failed[line.title] = answer.error
                else:
                    done.add(line.title)
        channel.close()
        theatre.discard_keys(caller)
    unexpected = {line.title for line in LINES if line.fails}
    if kind == "organisation":
        unexpected.add("topic.addSubResourceName")  # it is bound from the beginning
    assert {title: text for title, text in failed.items() if title not in done | unexpected} == {}
    assert done & unexpected == set()


@pytest.mark.parametrize("kind", ["person", "organisation"])
def test_what_was_not_granted_reads_like_what_does_not_exist(theatre: Theatre, kind: str) -> None:
    caller = next(caller for caller in CALLERS if caller.kind == "other tenant")
    stage = theatre.stage(kind).for_caller(caller, theatre.key_of(caller))
    absent = stage.absent()
    channel = Channel(theatre.server.port, caller, theatre.key_of(caller))
    differences: list[str] = []
    try:
        for line in LINES:
            if expected(caller, line, stage.world) is Outcome.HIDDEN:
                there, missing = channel.call(line, stage), channel.call(line, absent)
                texts = named_alike(there.error, stage), named_alike(missing.error, absent)
                if there.outcome is not missing.outcome or texts[0] != texts[1]:
                    differences.append(f"{line.title}: {texts[0]!r} and {texts[1]!r}")
    finally:
        channel.close()
    assert not differences, "\n".join(differences)


def order(line: Line) -> tuple[bool, int]:
    """As in the tables, but what removes things last."""
    return line.last, LINES.index(line)


def difference(line: Line, wanted: Outcome, found: Answer) -> str:
    if found.outcome is wanted:
        return ""
    return f"{line.title}: {found.outcome.value} ({found.error}), the model: {wanted.value}"


def shown_wrongly(line: Line, caller: Caller, stage: Stage, found: Answer) -> str:
    """A list that lacks what the caller may see, or has what it may not see."""
    if line.sees is None or found.error:
        return ""
    shows, sees = getattr(stage, line.shown) in found.body, line.sees(caller, stage.world)
    if shows == sees:
        return ""
    return f"{line.title}: {'shows' if shows else 'lacks'} the {line.shown}, unlike the model"


def pairs(before: Sequence[str], after: Sequence[str]) -> list[tuple[str, str]]:
    return [(was, now) for was, now in zip(before, after, strict=True) if was != now]


def named_alike(text: str, stage: Stage) -> str:
    for name in (stage.resource, stage.topic_path, stage.table_path, stage.topic_name):
        text = text.replace(name, "NAME")
    return text.replace(stage.table_name, "NAME")
