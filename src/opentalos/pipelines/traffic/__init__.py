"""Weights of servers from the traffic of past days."""
