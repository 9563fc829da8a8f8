"""Seeds of mutants are replayed in their own world."""

from click.testing import CliRunner
from tests.simulation.cluster_mutants import CLUSTER_MUTANTS
from tests.simulation.mutants import MUTANTS
from tests.simulation.replay import command, main, mutants
from tests.simulation.table_mutants import TABLE_MUTANTS

from opentalos.testing.simulation.seed_run import run_seed


def test_every_mutant_is_found_by_its_name() -> None:
    known = mutants()
    for mutant in (*MUTANTS, *CLUSTER_MUTANTS, *TABLE_MUTANTS):
        assert known[mutant.name] is mutant


def test_the_command_plays_the_seed_of_the_mutants_world() -> None:
    mutant = MUTANTS[0]
    line = command(mutant, 3, real=True)
    assert line.startswith("replay: python -m tests.simulation.replay ")
    played = CliRunner().invoke(main, [mutant.name, "3", "--real"])
    assert played.output.strip() == str(run_seed(3, mutant.config))
    assert played.exit_code == 0
    assert CliRunner().invoke(main, ["no such mutant", "3"]).exit_code != 0
