"""One server with the console and traffic, a browser, and windows of users of each role.

No page has data of its own: ``served`` has topics of two organisations, with messages that arrive
while the tests run, a group that reads them, and one that lags.
"""

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest
from playwright.sync_api import Browser, sync_playwright
from scripts.install_programs import CHROMIUM
from tests.e2e.console.browsing import BRIGHT, WAIT_MS, Login, Look, Visitor, visitor
from tests.e2e.rest.client import authorization, rest
from tests.published_invoices import publish
from tests.server_process import ROOT_KEY, Key, ServerProcess

from opentalos.sdk import Client, ClientConfig, Message, TalosConsumer, TalosProducer

ORGANISATIONS = {"alice": "CL1", "bob": "CL2"}
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>"
PAUSE_S = 0.2
POLL_S = 0.5
BATCH = 20
CONFIG = """
[console]
enabled = true
masked_fields = "card"
[billing]
invoices = "{home}"
"""


@dataclass
class Served:
    """A running server, and the keys of its users: root, viewer, alice (CL1), bob (CL2)."""

    process: ServerProcess
    logins: dict[str, Login] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return self.process.url

    def client(self, name: str) -> ClientConfig:
        """To use the SDK as a user."""
        login = self.logins[name]
        return ClientConfig(endpoints=(self.url,), key_id=login.key_id, secret=login.secret)

    def rest(self, method: str, path: str, document: object = None, by: str = "root") -> object:
        """One call; its document."""
        login = self.logins[by]
        headers = authorization(Key(login.key_id, login.secret))
        replied = rest(self.process, method, path, document, headers)
        assert replied.status < 400, replied
        return replied.document


def add_users(served: Served) -> None:
    served.logins["root"] = Login(ROOT_KEY.key_id, ROOT_KEY.secret)
    for name in ("viewer", "alice", "bob"):
        fields: dict[str, str] = {"id": name}
        if name in ORGANISATIONS:
            fields["organisation"] = ORGANISATIONS[name]
        else:
            fields["role"] = "viewer"
        served.rest("POST", "principals", fields)
        key = served.rest("POST", f"principals/{name}/keys")
        assert isinstance(key, dict)
        served.logins[name] = Login(key["key_id"], key["secret"])
    for owner, topic in (("alice", "orders"), ("alice", "payments"), ("bob", "secrets")):
        served.rest("POST", "topics", {"name": topic, "partitions": 4}, by=owner)


def add_table(served: Served) -> None:
    """A table of alice with some rows, whose changes go to the topic payments."""
    columns = {"customer": "string", "placed": "int64", "order": "string", "vip": "bool"}
    served.rest(
        "POST", "tables",
        {"name": "customers", "key": ["customer"], "columns": columns, "quota_bytes": 10_000_000,
         "description": "Who ordered, and when", "streams": {"payments": {"view": "keys-only"}}},
        by="alice",
    )  # fmt: skip
    for number in range(120):
        order = json.dumps({"item": "socks", "card": "4111111111111111", "note": HOSTILE})
        row = {"customer": f"customer-{number:03}", "placed": 1_790_000_000 + number,
               "order": order, "vip": number % 7 == 0}  # fmt: skip
        served.rest("POST", "tables/customers/rows/put", {"row": row}, by="alice")


def produce(served: Served, ended: threading.Event) -> None:
    """Orders of alice until the end, 100 a second; some payments, which nobody reads on time."""
    with Client(served.client("alice")) as client, TalosProducer(client, "orders") as orders:
        with TalosProducer(client, "payments") as payments:
            number = 0
            while not ended.wait(PAUSE_S):
                for _ in range(BATCH):
                    number += 1
                    order = {"order": number, "item": "socks", "card": "4111111111111111"}
                    key = f"customer-{number % 50}"
                    orders.put(Message(json.dumps(order).encode(), partition_key=key))
                payments.put(json.dumps({"order": number, "paid": True}).encode())


def consume(served: Served, ended: threading.Event) -> None:
    """The group billing reads orders; the group archive has read some payments once."""
    with Client(served.client("alice")) as client:
        with TalosConsumer(client, "payments", "archive") as archive:
            while not ended.is_set() and not archive.poll(POLL_S):
                pass
        with TalosConsumer(client, "orders", "billing") as billing:
            while not ended.is_set():
                billing.poll(POLL_S)


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The server with traffic; tests leave its users and their topics as they are."""
    home = tmp_path_factory.mktemp("home")
    publish(home, tenants=("CL1", "CL2"))
    config = CONFIG.format(home=home)
    found = Served(ServerProcess(tmp_path_factory.mktemp("console"), config=config).start())
    ended = threading.Event()
    try:
        add_users(found)
        add_table(found)
        threads = [threading.Thread(target=run, args=(found, ended)) for run in (produce, consume)]
        for thread in threads:
            thread.start()
        yield found
        ended.set()
        for thread in threads:
            thread.join()
    finally:
        ended.set()
        found.process.stop()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    program = CHROMIUM.path
    assert program is not None, f"{CHROMIUM.about}: {CHROMIUM.remedy}"
    with sync_playwright() as playwright:
        # As root in a container Chromium has no sandbox, and little shared memory.
        arguments = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        started = playwright.chromium.launch(
            executable_path=program, args=arguments, timeout=WAIT_MS
        )
        yield started
        started.close()


@pytest.fixture
def visit(served: Served, browser: Browser) -> Iterator[Callable[..., Visitor]]:
    """Opens a window: ``visit("alice")``, ``visit("root", NIGHT)``.

    At the end of the test no page may have complained about its policy or its scripts.
    """
    opened: list[Visitor] = []

    def visit_as(name: str, look: Look = BRIGHT) -> Visitor:
        login = served.logins[name] if name else None
        opened.append(visitor(browser, served.url, login, **look.options))
        return opened[-1]

    yield visit_as
    complaints = [line for window in opened for line in window.complaints]
    for window in opened:
        window.context.close()
    assert complaints == []
