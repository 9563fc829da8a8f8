"""An application puts and gets a row of a table by its plain name: the row, or the code."""

from load_table import Arguments, run, say, table_client
from sds.client.datumutil import datum, values
from sds.errors.ttypes import ServiceException
from sds.table.ttypes import DataType, GetRequest, PutRequest


def program(arguments: Arguments) -> None:
    tables, name = table_client(arguments), arguments["table"]
    key = {"name": datum("ann")}
    try:
        tables.put(PutRequest(name, {**key, "age": datum(31, DataType.INT32)}))
        say(row=dict(values(tables.get(GetRequest(name, key)).item)))
    except ServiceException as error:
        say(code=error.errorCode)


run(program)
