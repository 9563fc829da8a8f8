"""One call to a server that is not ready at first: the client has to repeat it by itself."""

from load_table import Arguments, admin_client, run, say


def program(arguments: Arguments) -> None:
    say(time=admin_client(arguments).getServerTime())


run(program)
