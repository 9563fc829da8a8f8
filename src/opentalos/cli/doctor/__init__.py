"""``talos doctor``: what is wrong with a machine for a server, and what to do."""
