"""The message browser and the live tail in a browser, with hostile and fast traffic."""

import base64
import json
from collections.abc import Callable, Iterator
from urllib.request import Request, urlopen

import pytest
from playwright.sync_api import Page, expect
from prometheus_client.parser import text_string_to_metric_families
from tests.e2e.console.browsing import BRIGHT, DARK, NIGHT, Look, Visitor
from tests.e2e.console.conftest import Served
from tests.e2e.rest.client import authorization
from tests.server_process import ROOT_KEY
from tests.waiting import elapse, limit_s, stays

from opentalos.sdk import Client, Message, TalosProducer

Visit = Callable[..., Visitor]
HOSTILE = (
    "<script>window.hacked = 1</script>",
    '"><img src=x onerror="window.hacked = 1">',
    "<svg/onload=window.hacked=1>",
    "{{ 7 * 7 }}</pre><iframe src=javascript:window.hacked=1>",
)
WAITS = "/rest/v1/topics/CL1%2Fsilent/partitions/0/messages?offset=0&wait_s=20"
FAST, FAST_BATCHES = 250, 20  # messages of a batch, and batches


@pytest.fixture(scope="session")
def hostile(served: Served) -> Iterator[str]:
    """A topic of alice with hostile keys, tags and data, and bytes that are no text."""
    served.rest("POST", "topics", {"name": "hostile", "partitions": 1}, by="alice")
    messages: list[dict[str, object]] = [
        {"value": [text], "key": text, "tag": text} for text in HOSTILE
    ]
    messages += [
        {"value": {text: text, "card": "4111111111111111"}, "key": "json"} for text in HOSTILE
    ]
    messages.append({"base64": base64.b64encode(bytes(range(256))).decode()})
    path = "topics/hostile/partitions/0/messages"
    served.rest("POST", path, {"messages": messages}, by="alice")
    yield "topics/CL1%2Fhostile"
    served.rest("DELETE", "topics/hostile", by="alice")


@pytest.mark.parametrize("look", [BRIGHT, NIGHT], ids=str)
def test_messages_are_shown_in_each_view(visit: Visit, look: Look) -> None:
    window = visit("alice", look)
    for view in ("auto", "text", "hex"):
        page = window.go(f"topics/CL1%2Forders/messages?view={view}&rows=20")
        expect(page.locator("table.messages tbody tr").first).to_be_visible()
        expect(page.locator("main")).not_to_contain_text("4111111111111111")
        window.picture(f"messages-{view}-{look}")
        assert window.cut_columns() == []
    assert window.violations() == []


def test_messages_are_found_by_offset_time_and_text(visit: Visit, served: Served) -> None:
    window = visit("alice")
    page = window.go("topics/CL1%2Forders/messages")
    page.select_option("select[name=from]", "offset")
    page.fill("input[name=partition]", "0")
    page.fill("input[name=offset]", "3")
    page.fill("input[name=rows]", "5")
    page.click("button.main")
    offsets = page.locator("table.messages tbody td:nth-child(3)")
    expect(offsets).to_have_text(["3", "4", "5", "6", "7"])
    page.click("text=newer")
    expect(offsets.first).to_have_text("8")
    page.go_back()
    expect(offsets.first).to_have_text("3")
    offsets.first.locator("a").click()
    expect(page.locator("h1")).to_have_text("Message 0/3")
    assert window.violations() == []
    page = window.go("topics/CL1%2Forders/messages?from=start&find=%22order%22%3A+7%2C")
    expect(page.locator("table.messages tbody tr")).to_have_count(1)
    found = served.rest("GET", "topics/orders/partitions/1/messages?offset=9&messages_max=1",
                        by="alice")  # fmt: skip
    assert isinstance(found, dict)
    time_ms = found["messages"][0]["append_ms"]
    page = window.go(f"topics/CL1%2Forders/messages?partition=1&from=time&time={time_ms}&rows=1")
    expect(page.locator("table.messages tbody tr")).to_have_count(1)


def test_hostile_messages_run_nothing(visit: Visit, hostile: str) -> None:
    window = visit("alice", DARK)
    for path in ("messages?view=auto", "messages?view=text", "messages?view=hex", "messages/0/0",
                 "messages/0/4", "messages/0/8", "messages?find=%3Cscript%3Ewindow"):  # fmt: skip
        page = window.go(f"{hostile}/{path}")
        expect(page.locator("pre").first).to_be_visible()
        assert page.evaluate("() => window.hacked") is None
        assert page.locator("main img, main iframe, main svg[onload], main script").count() == 0
    page = window.go(f"{hostile}/messages?from=start&rows=100")
    expect(page.locator("main")).to_contain_text(HOSTILE[0])
    expect(page.locator("main")).to_contain_text("binary data, perhaps with schema id")
    expect(page.locator("main")).to_contain_text("256 B · withheld")
    window.picture("messages-hostile")


def follows(page: Page) -> None:
    """The first reply came, which says where the tail begins."""
    expect(page.locator("[data-tail]")).to_have_attribute("data-came", "0")


def test_the_tail_shows_hostile_messages_as_text(
    visit: Visit, hostile: str, served: Served
) -> None:
    window = visit("alice")
    page = window.go(f"{hostile}/tail")
    expect(page.locator("#tail-state")).to_contain_text("Waiting")
    follows(page)
    messages: list[dict[str, object]] = [{"value": [text], "key": text} for text in HOSTILE]
    messages.append({"text": json.dumps({"card": "4111111111111111"})})
    messages.append({"text": "card 4111111111111111"})
    path = "topics/hostile/partitions/0/messages"
    served.rest("POST", path, {"messages": messages}, by="alice")
    expect(page.locator("[data-tail] tbody tr")).to_have_count(len(messages))
    expect(page.locator("[data-tail]")).to_contain_text(HOSTILE[1])
    expect(page.locator("[data-tail]")).not_to_contain_text("4111111111111111")
    assert page.evaluate("() => window.hacked") is None


def test_the_tail_keeps_up_with_a_fast_topic_and_its_table_is_bounded(
    visit: Visit, served: Served
) -> None:
    served.rest("POST", "topics", {"name": "fast", "partitions": 2}, by="alice")
    window = visit("alice")
    page = window.go("topics/CL1%2Ffast/tail")
    follows(page)
    with Client(served.client("alice")) as client, TalosProducer(client, "fast") as producer:
        for batch in range(FAST_BATCHES):
            for number in range(FAST):
                producer.put(Message(f"message {batch} {number}".encode()))
            producer.flush()
            elapse("1,000 messages a second are put", FAST / 1_000)
    table = page.locator("[data-tail]")
    expect(table).to_have_attribute("data-came", str(FAST * FAST_BATCHES))
    assert page.locator("[data-tail] tbody tr").count() == 500
    page.click("[data-tail-pause]")
    expect(page.locator("[data-tail-pause]")).to_have_text("Continue")
    window.picture("tail-wide")
    assert window.violations() == []
    page.click("[data-tail-clear]")
    expect(page.locator("[data-tail] tbody tr")).to_have_count(0)
    window.context.close()  # in the middle of the tail
    served.rest("DELETE", "topics/fast", by="alice")


def test_windows_that_close_while_they_read_are_no_errors_of_the_server(
    visit: Visit, served: Served
) -> None:
    served.rest("POST", "topics", {"name": "silent", "partitions": 1}, by="alice")
    before = failures_of(served)
    for _ in range(3):
        window = visit("alice")
        page = window.go("topics/CL1%2Fsilent/tail")
        with page.expect_request("**/messages?**"):
            page.evaluate(f"() => {{ void fetch('{WAITS}'); void fetch(location + '/rows') }}")
        window.context.close()
    stays("no request failed", lambda: failures_of(served) == before)
    served.rest("DELETE", "topics/silent", by="alice")


def failures_of(served: Served) -> dict[str, float]:
    """Requests of which nobody knows the outcome, and those that found no answer, ever."""
    request = Request(f"{served.url}/metrics", headers=authorization(ROOT_KEY))
    with urlopen(request, timeout=limit_s()) as reply:
        text = reply.read().decode()
    return {
        sample.labels["error"]: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "opentalos_failures_total"
        and sample.labels["error"] in ("OutcomeUnknown", "http_503")
    }


def test_a_message_is_put_by_the_form(visit: Visit, hostile: str) -> None:
    window = visit("alice")
    page = window.go(f"{hostile}/produce")
    assert window.violations() == []
    page.fill("#field-key", "k-1")
    page.select_option("#field-format", "json")
    page.fill("#field-data", "{not json")
    page.click("text=Put the message")
    expect(page.get_by_role("alert").first).to_contain_text("not valid json")
    page.fill("#field-data", '{"by": "hand"}')
    window.picture("produce-wide")
    page.click("text=Put the message")
    expect(page.get_by_role("status")).to_contain_text("The message is stored in partition 0")
    page = window.go(f"{hostile}/messages?find=hand")
    expect(page.locator("table.messages tbody tr")).to_have_count(1)
