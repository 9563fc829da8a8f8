"""Thrift over HTTP: authentication, the hot path of messages, generic calls, error forms."""
