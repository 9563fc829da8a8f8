"""Make the table of the load programs; its topics are there already."""

from load_table import Arguments, admin_client, run, say, spec


def program(arguments: Arguments) -> None:
    made = admin_client(arguments).createTable(arguments["table"], spec(arguments))
    say(table=made.name, uuid=made.spec.metadata.tableId)


if __name__ == "__main__":
    run(program)
