"""Requests and responses generated from idl/kafka."""
