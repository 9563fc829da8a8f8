"""One partition of the log: its states, queue, writer, opening and recovery."""
