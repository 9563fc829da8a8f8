"""Weights of servers from past traffic."""
