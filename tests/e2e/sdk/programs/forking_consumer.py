"""A process that forks in the middle of a loop over a consumer. Arguments: URL, ID:SECRET."""

import os
import sys

from opentalos.sdk import ClientConfig, TalosConsumer
from opentalos.sdk.errors import ClientClosed

url, key = sys.argv[1:3]
key_id, _, secret = key.partition(":")
config = ClientConfig(endpoints=(url,), key_id=key_id, secret=secret)
consumer = TalosConsumer(config, "forked-consumer", "g")
refused = 0
seen = []
for record in consumer:
    seen.append(record.offset)
    if len(seen) == 3:
        child = os.fork()
        if child == 0:
            for call in (iter(consumer).__next__, consumer.commit, lambda: consumer.assignment):
                try:
                    call()
                except ClientClosed as error:
                    refused += "forked child" in str(error)
            consumer.close()  # harmless
            sys.exit(refused)  # as a script ends, with what runs at exit
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if len(seen) == 10:
        break
consumer.commit()
consumer.close()
sys.stdout.write(f"seen {seen}, refusals in the child {status}\n")
