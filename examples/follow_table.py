"""Balance per city, from the changes of a table.

usage: TALOS_URL=http://HOST:PORT TALOS_KEY=ID:SECRET follow_table.py TABLE TOPIC GROUP COUNT

Reads COUNT changes of a stream with view MUTATE_LOG as a member of a consumer group. Redelivered
changes count once; real programs store the state together with the position.
"""

import sys
from collections import Counter

from opentalos.sdk import ClientConfig
from opentalos.sdk.stream import ChangeReader, Replica
from opentalos.sdk.tables import StreamView, TalosTable


def main(table: str, topic: str, group: str, count: int) -> None:
    config = ClientConfig.from_environment()
    with TalosTable(config, table) as reading:
        accounts = Replica(reading.schema(), StreamView.MUTATE_LOG)
    totals: Counter[str] = Counter()
    with ChangeReader(config, table, topic, group) as reader:
        for number, (_, _, _, change) in enumerate(reader, 1):
            key = {"id": change.key["id"]}
            before = accounts.get(key)
            if accounts.apply(change):
                after = accounts.get(key)
                for record, sign in ((before, -1), (after, 1)):
                    if record is not None:
                        totals[str(record["city"])] += sign * int(record.get("balance", 0))
            if number == count:
                reader.commit()
                break
    for city, total in sorted(totals.items()):
        print(city, total)


if __name__ == "__main__":
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
