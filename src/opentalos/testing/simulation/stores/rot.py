"""Rot: stored bits that flip long after they were written."""

from opentalos.testing.simulation.stores.disk import SimulatedDisk

ROT_AFTER_S = 0.5  # since a file's last commit: what is younger may still look like a torn write


def flip_anywhere(disk: SimulatedDisk, suffix: str) -> str | None:
    """Flip one stored bit anywhere in a file that was not written for a while; once per file.

    A flipped bit in the last commit of a file looks like a torn write, but is none. Returns the
    path, if any.
    """
    now_s, rng = disk.loop.time(), disk.troubles.rng
    found = [
        path
        for path, file in disk.files.items()
        if path.endswith(suffix)
        and file.content
        and not file.rotten
        and now_s - file.committed_s > ROT_AFTER_S
    ]
    if not found:
        return None
    path = rng.choice(found)
    file = disk.files[path]
    file.rotten = True
    start = file.before_last_bytes if rng.random() < 0.5 else 0
    file.content[rng.randrange(start, len(file.content))] ^= 1 << rng.randrange(8)
    return path
