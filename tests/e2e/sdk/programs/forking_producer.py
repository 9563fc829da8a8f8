"""A process that forks while its TalosProducer has messages waiting. Arguments: URL, ID:SECRET."""

import os
import sys

from opentalos.sdk import ClientConfig, ProducerSettings, TalosProducer

url, key = sys.argv[1:3]
key_id, _, secret = key.partition(":")
config = ClientConfig(endpoints=(url,), key_id=key_id, secret=secret)
settings = ProducerSettings(linger_s=10.0)  # nothing is sent before a flush
producer = TalosProducer(config, "forked-producer", settings)
outcomes: list[object] = []
producer.put(b"parent 0", on_success=lambda *what: outcomes.append(what))


def live_as_child(number: int) -> None:
    assert producer.buffered_bytes == 0, "what the parent has put, the parent sends"
    mine: list[object] = []
    for text in (b"a", b"b"):
        producer.put(b"child %d %b" % (number, text), on_success=lambda *what: mine.append(what))
    producer.close()
    assert len(mine) == 2
    assert not outcomes


children = []
for number in range(2):
    child = os.fork()
    if child == 0:
        live_as_child(number)
        sys.exit(0)  # as a script ends, with what runs at exit
    children.append(child)
statuses = [os.waitpid(child, 0)[1] for child in children]
producer.put(b"parent 1")
producer.flush()
assert len(outcomes) == 1
sys.stdout.write(f"statuses {statuses}\n")
# Not closed: at the end nothing is said, and nothing hangs.
