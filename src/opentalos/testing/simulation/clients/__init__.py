"""Simulated clients, their workloads, and the audits that read everything at the end of a run."""
