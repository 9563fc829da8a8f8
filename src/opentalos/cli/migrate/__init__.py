"""``talos migrate``: copies topics from one server to another, exactly once."""
