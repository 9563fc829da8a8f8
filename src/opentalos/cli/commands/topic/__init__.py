"""``talos topic`` and ``talos acl``."""
