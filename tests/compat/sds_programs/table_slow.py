"""The client's own scanner on a table whose rate lets through less than it asks for."""

from load_table import Arguments, admin_client, datums, run, say, spec, table_client
from sds.client.tablescanner import scan_iter
from sds.table.ttypes import (
    BatchOp,
    BatchRequest,
    BatchRequestItem,
    ProvisionThroughput,
    PutRequest,
    Request,
    ScanRequest,
)

NAME = "slow"
PAGE = 60
READS_PER_S = 12


def program(arguments: Arguments) -> None:
    admin, tables = admin_client(arguments), table_client(arguments)
    admin.createTable(NAME, spec(arguments))
    rows = [datums({"grp": "g", "id": number}) for number in range(arguments["rows"])]
    puts = [Request(putRequest=PutRequest(NAME, row)) for row in rows]
    tables.batch(BatchRequest([BatchRequestItem(BatchOp.PUT, put) for put in puts]))
    limited = admin.describeTable(NAME)
    limited.metadata.throughput = ProvisionThroughput(READS_PER_S, None)
    admin.alterTable(NAME, limited)
    say(ids=[row["id"] for row in scan_iter(tables, ScanRequest(NAME, limit=PAGE))])


run(program)
