"""Quotas: limits, throttling, storage accounts, projections and automatic decisions."""
