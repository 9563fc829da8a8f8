"""Deterministic simulation: virtual time, faulty stores, clients, the history checker."""
