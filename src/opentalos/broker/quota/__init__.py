"""Quotas, storage accounts, usage and metering."""
