"""The overview over a whole broker: what needs attention leads to its cause."""

import pytest
from tests.unit.gateway.console.support import browser

TOPIC = "settlement-events.reconciliation_v2"
GROUP = "/console/groups/root%2Fsettlement-events.reconciliation_v2/fraud-detection"


async def test_a_group_that_lags_is_an_alarm_that_leads_to_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("opentalos.gateway.console.pages.overview.LAG_WARNS", 3)
    async with browser() as root:
        new = {"name": TOPIC, "partitions": 1}
        assert (await root.rest("POST", "topics", new)).status == 201
        sent = {"messages": [{"text": "x"}] * 5}
        await root.rest("POST", f"topics/{TOPIC}/partitions/0/messages", sent)
        await root.rest("POST", f"topics/{TOPIC}/groups/fraud-detection/workers")
        page = await root.get()
    assert f"▲ group fraud-detection lags 5 messages on {TOPIC} " in page.words
    assert page.text.count(f'href="{GROUP}"') == 2  # of the alarm, and of the largest lag


async def test_an_alarm_of_a_server_leads_to_the_server() -> None:
    async with browser() as root:
        await root.rest("POST", "topics", {"name": "t", "partitions": 1})
        await root.rest("POST", "topics/t/partitions/0/messages", {"messages": [{"text": "x"}]})
        topic = root.rest.world.broker.context.topics.record("root", "t")
        assert topic is not None
        await root.rest.world.damage(topic, 0)
        page = await root.get()
        server = (await root.rest("GET", "health")).document["alarms"][0]["server"]
        assert "root/t/0 (partition 0 is damaged)" in page.words
        assert f'<a href="/console/servers/{server}">' in page.text
        assert (await root.get(f"/console/servers/{server}")).status == 200


async def test_long_names_break_after_separators_and_are_whole_as_text() -> None:
    async with browser() as root:
        name = "a_" + "w" * 40 + "-b"
        await root.rest("POST", "topics", {"name": name, "partitions": 1})
        page = await root.get()
        assert f'a_<wbr><span class="long" title="{name}">{"w" * 40}-</span><wbr>b' in page.text
        assert name in page.words
