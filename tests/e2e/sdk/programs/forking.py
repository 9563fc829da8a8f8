"""A process that forks while the SDK is in use; both continue. Arguments: URL, ID:SECRET, CA."""

import os
import sys
import threading

from opentalos.sdk import Client, ClientConfig, SimpleConsumer, SimpleProducer, TlsSettings
from opentalos.sdk.sync.loop_thread import LoopThread

url, key, ca = sys.argv[1:4]
key_id, _, secret = key.partition(":")
tls = TlsSettings(ca_file=ca) if ca else None
config = ClientConfig(endpoints=(url,), key_id=key_id, secret=secret, tls=tls)
client = Client(config)
producer = SimpleProducer(client, "forked", 0)
producer.put([b"parent before"])

# Another thread is in the middle of puts, and thus of connections, when the fork happens.
stop = threading.Event()
others: list[int] = []


def busy() -> None:
    with SimpleProducer(client, "forked", 1) as other:
        while not stop.is_set():
            other.put([b"busy"])
            others.append(1)


thread = threading.Thread(target=busy)
thread.start()
parents_loop = LoopThread.shared()
children = []
for number in range(3):
    child = os.fork()
    if child == 0:
        assert LoopThread.shared() is not parents_loop
        assert threading.active_count() == 2, "this thread and the loop's"
        producer.put([b"child %d" % number])
        with SimpleConsumer(client, "forked") as consumer:
            assert consumer.fetch(0, 0)
        grandchild = os.fork()
        if grandchild == 0:
            producer.put([b"grandchild %d" % number])
            sys.exit(0)  # as a script ends, with what runs at exit
        assert os.waitpid(grandchild, 0)[1] == 0
        sys.exit(0)
    children.append(child)
    producer.put([b"parent between"])
statuses = [os.waitpid(child, 0)[1] for child in children]
before = len(others)
producer.put([b"parent after"])
while len(others) < before + 3:  # the connections of the parent still work
    pass
stop.set()
thread.join()
sys.stdout.write(f"statuses {statuses}\n")
