"""REST workers of one group on a real server, and puts with a key over its crash."""

import threading
from collections import Counter

from tests.e2e.rest.client import rest
from tests.server_process import ServerProcess
from tests.waiting import eventually

PARTITIONS = 4
MESSAGES = 40


class Worker:
    """Reads and commits until the group has processed everything."""

    def __init__(self, server: ServerProcess) -> None:
        self._server = server
        joined = rest(server, "POST", "topics/t/groups/g/workers").document
        self.path = f"topics/t/groups/g/workers/{joined['worker']}"
        self.seen: Counter[str] = Counter()
        self.held: set[int] = set()

    def work(self) -> None:
        eventually("the group has processed everything", self._has_no_more)

    def _has_no_more(self) -> bool:
        if self.lag() == 0:
            return True
        query = "wait_s=1&encoding=text&messages_max=4"
        got = rest(self._server, "GET", f"{self.path}/messages?{query}").document
        offsets: dict[str, int] = {}
        for message in got["messages"]:
            self.seen[message["text"]] += 1
            self.held.add(message["partition"])
            partition = str(message["partition"])
            offsets[partition] = max(offsets.get(partition, -1), message["offset"])
        if offsets:
            rest(self._server, "POST", f"{self.path}/commits", {"offsets": offsets})
        return False

    def lag(self) -> int:
        return int(rest(self._server, "GET", "topics/t/groups/g").document["lag"])


def test_two_workers_share_a_group_and_process_everything(server: ServerProcess) -> None:
    rest(server, "POST", "topics", {"name": "t", "partitions": PARTITIONS})
    first, second = Worker(server), Worker(server)
    for worker in (first, second, first):
        rest(server, "POST", f"{worker.path}/renew")  # until the shares are equal
    for number in range(MESSAGES):
        sent = {"messages": [{"text": str(number)}]}
        assert rest(server, "POST", "topics/t/messages", sent).status == 200
    threads = [threading.Thread(target=worker.work) for worker in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert first.seen + second.seen == Counter(map(str, range(MESSAGES)))
    assert len(first.held) == len(second.held) == PARTITIONS // 2
    assert not first.held & second.held


def test_a_put_with_its_key_is_stored_once_over_a_crash(server: ServerProcess) -> None:
    rest(server, "POST", "topics", {"name": "t", "partitions": 3})
    sent = {"messages": [{"value": 1}, {"value": 2}]}
    key = {"Idempotency-Key": "order-7"}
    first = rest(server, "POST", "topics/t/messages", sent, key)
    assert first.status == 200
    server.kill()
    server.start()
    again = rest(server, "POST", "topics/t/messages", sent, key)
    assert again.document == first.document
    path = f"topics/t/partitions/{first.document['partition']}/messages?encoding=json"
    stored = rest(server, "GET", path).document["messages"]
    assert [item["value"] for item in stored] == [1, 2]
