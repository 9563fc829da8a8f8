"""Projections of the traffic of tenants."""
