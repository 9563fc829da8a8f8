"""One partition: segments, blocks, index, group commit, lanes, tail cache, opening, retention."""
