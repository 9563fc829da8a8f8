"""Which disks executors write to."""

from opentalos.pipelines.lake.written_rows import is_one_machine


def test_one_machine_is_what_runs_in_one_process() -> None:
    assert all(map(is_one_machine, ("local", "local[*]", "local[2]", "local[2,4]")))
    others = ("local-cluster[2,1,1024]", "spark://h:7077", "yarn", "k8s://https://h:6443")
    assert not any(map(is_one_machine, others))
