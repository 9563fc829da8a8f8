"""Asks whether a run still has its lease, right before it writes where no epoch is compared."""

from typing import Final

from opentalos.model.errors import LeaseNotHeld
from opentalos.pipelines.pipeline import PipelineSettings
from opentalos.pipelines.runtime.connection import client_config
from opentalos.pipelines.runtime.home_id import lease_name
from opentalos.sdk.rest_client import RestClient

CALL_S: Final = 5.0  # for the answer; a caller repeats what needs one


def confirm_lease(settings: PipelineSettings, pipeline: str, epoch: int) -> None:
    """Return if the run's lease is still held under ``epoch``; 0: the run has none.

    A process that is stopped right after the answer may still write too late.

    Raises: LeaseNotHeld: it is not; Unavailable: no server answers.
    """
    if not epoch:
        return
    name = lease_name(pipeline, settings.home)
    call = RestClient(client_config(settings, CALL_S), CALL_S)
    held = {each["name"]: each for each in call("GET", "leases")["leases"]}
    found = held.get(name)
    if found is None:
        raise _not_held(name, epoch, "nobody holds it")
    if found["epoch"] != epoch:
        holds = f"{found['holder']} holds it under epoch {found['epoch']}"
        raise _not_held(name, epoch, holds)


def _not_held(name: str, epoch: int, why: str) -> LeaseNotHeld:
    return LeaseNotHeld(
        f"lease {name} is not held under epoch {epoch}: {why}; another run may have taken over, so "
        "this one must stop"
    )
