from opentalos.placement.schedule import schedule


def test_every_partition_has_an_address() -> None:
    assert list(schedule(3, "10.0.0.1:80")) == ["10.0.0.1:80"] * 3
