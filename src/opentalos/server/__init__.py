"""Config file, wiring and lifecycle of one server."""
