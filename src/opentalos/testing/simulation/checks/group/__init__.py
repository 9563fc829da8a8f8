"""Checks of groups that share work: of workers, of members of Kafka groups, of named leases."""
