from bench.restart_figures import moved_between


def test_a_restart_that_others_wait_for_moves_nothing() -> None:
    opened = {"s2": ("a", 3), "s3": ("b", 0)}
    assert moved_between(opened, opened) == 0


def test_each_partition_that_another_server_opened_moved() -> None:
    before = {"s2": ("a", 3), "s3": ("b", 0)}
    assert moved_between(before, {"s2": ("a", 5), "s3": ("b", 1)}) == 3


def test_what_a_server_opened_after_a_crash_counts_from_nothing() -> None:
    assert moved_between({"s2": ("a", 3)}, {"s2": ("c", 2)}) == 2
