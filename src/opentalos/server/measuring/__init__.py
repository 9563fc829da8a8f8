"""Measurements of this server, written to ``__metrics``."""
