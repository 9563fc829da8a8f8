"""Which disks executors write to."""

import pytest

from opentalos.model.errors import ConfigError
from opentalos.pipelines.lake.written_rows import check_shared, is_one_machine


def test_one_machine_is_what_runs_in_one_process() -> None:
    assert all(map(is_one_machine, ("local", "local[*]", "local[2]", "local[2,4]")))
    others = ("local-cluster[2,1,1024]", "spark://h:7077", "yarn", "k8s://https://h:6443")
    assert not any(map(is_one_machine, others))


@pytest.mark.parametrize("master", ["local-cluster[2,1,1024]", "spark://h:7077", "yarn"])
def test_a_folder_of_one_machine_is_refused_for_executors_elsewhere(master: str) -> None:
    with pytest.raises(ConfigError, match=r"table t at /lake is a folder of one machine.*hdfs"):
        check_shared("table t at /lake", master, local=True)
    check_shared("table t at hdfs://h:1/lake", master, local=False)
    check_shared("table t at /lake", "local[4]", local=True)
