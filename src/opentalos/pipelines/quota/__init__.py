"""Projections of tenants' traffic."""
