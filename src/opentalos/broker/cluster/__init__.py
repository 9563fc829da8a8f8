"""This server as one of many: membership, ownership, hand-over, controller, calls to peers."""
