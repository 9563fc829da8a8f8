"""Noisy neighbours: behaviours of an attacker beside a victim of another tenant."""
