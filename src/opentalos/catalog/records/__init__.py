"""Records of the MetaStore kept in memory."""
