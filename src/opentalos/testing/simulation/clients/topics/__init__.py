"""Clients that create, change, share and delete topics, and a workload of one topic."""
