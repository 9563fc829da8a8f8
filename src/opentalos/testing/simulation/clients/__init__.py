"""Simulated clients and their workloads."""
