"""Calls between the servers of a cluster."""
