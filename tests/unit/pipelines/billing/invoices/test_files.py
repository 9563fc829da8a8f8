"""Invoices of a month are in force as a whole, and final once they are closed."""

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from opentalos.model.errors import ConfigError, LeaseNotHeld, OutcomeUnknown, StoreUnavailable
from opentalos.pipelines.billing.invoices.files import Files, InvoiceFolder, Ledger, page_name
from opentalos.pipelines.lake.periods.month import Month

MONTH = Month(2026, 3)


def content(text: str) -> Callable[[int], Files]:
    """Invoices with this text, which also show their revision."""
    return lambda revision: {"lines": f"{text} {revision}".encode(), "pages/a.html": b"page"}


@pytest.fixture
def folder(tmp_path: Path) -> InvoiceFolder:
    return InvoiceFolder(tmp_path, MONTH)


def shown(folder: InvoiceFolder) -> str:
    return (folder.folder / "current" / "lines").read_text()


def test_the_same_invoices_are_the_same_version(folder: InvoiceFolder) -> None:
    first = folder.publish(content("one"))
    inode = (first / "lines").stat().st_ino
    assert folder.publish(content("one")) == first == folder.current
    assert (first / "lines").stat().st_ino == inode


def test_a_new_version_replaces_the_old_as_a_whole(folder: InvoiceFolder) -> None:
    before = folder.publish(content("one"))
    after = folder.publish(content("two"))
    assert shown(folder) == "two 1"
    assert (before / "lines").read_text() == "one 1", "a reader may be at it still"
    folder.publish(content("three"))
    assert after.exists()
    assert not before.exists()


def test_a_crash_before_the_end_leaves_the_former_invoices(
    folder: InvoiceFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.publish(content("one"))
    for step in ("sync", "rename", "replace"):

        def crash(*_: object) -> None:
            raise OSError("crash")

        with monkeypatch.context() as patch:
            patch.setattr(os, step, crash)
            with pytest.raises(OutcomeUnknown, match="crash; bill the month again"):
                folder.publish(content(step))
        assert shown(folder) == "one 1"
    folder.publish(content("two"))
    assert shown(folder) == "two 1"


def test_a_closed_month_does_not_change_silently(folder: InvoiceFolder) -> None:
    folder.publish(content("one"))
    folder.close()
    folder.close()
    assert folder.ledger().closed
    folder.publish(content("one"))
    with pytest.raises(ConfigError, match="2026-03 is closed"):
        folder.publish(content("two"))
    assert shown(folder) == "one 1"


def test_an_opened_month_gets_the_next_revision_and_keeps_the_last(folder: InvoiceFolder) -> None:
    closed = folder.publish(content("one"))
    folder.close()
    assert folder.publish(content("one"), reopen=True) == closed
    assert folder.ledger().closed, "nothing was to be changed"
    folder.publish(content("two"), reopen=True)
    assert shown(folder) == "two 2"
    assert not folder.ledger().closed
    folder.publish(content("three"))
    folder.close()
    assert shown(folder) == "three 2"
    assert folder.ledger().revision == 2
    assert (closed / "lines").read_text() == "one 1"


def test_a_month_without_invoices_cannot_be_closed(folder: InvoiceFolder) -> None:
    folder.close()
    assert folder.ledger() == Ledger()
    assert folder.current is None


def test_a_ledger_that_is_none_is_refused(folder: InvoiceFolder) -> None:
    folder.publish(content("one"))
    (folder.folder / "ledger.json").write_text("[]")
    with pytest.raises(ConfigError, match=r"ledger\.json is damaged"):
        folder.publish(content("two"))


def test_every_tenant_has_a_file_of_its_own() -> None:
    tenants = ["a", "A", "a/b", "a%2Fb", "..", ".", "", "ü", "x" * 300, "x" * 301, "a b"]
    names = [page_name(tenant) for tenant in tenants]
    assert len(set(names)) == len(tenants)
    for name in names:
        assert name.count("/") == 1
        assert len(name) <= 255


def test_a_late_run_neither_publishes_nor_closes(tmp_path: Path, folder: InvoiceFolder) -> None:
    folder.publish(content("one"), epoch=3)
    folder.publish(content("two"), epoch=4)
    for month in (folder, InvoiceFolder(tmp_path, Month(2026, 4))):
        with pytest.raises(LeaseNotHeld, match=r"invoices of .* under epoch 3: a run with epoch 4"):
            month.publish(content("three"), epoch=3)
        with pytest.raises(LeaseNotHeld):
            month.close(epoch=3)
    assert shown(folder) == "two 1"
    assert not folder.ledger().closed
    assert InvoiceFolder(tmp_path, Month(2026, 4)).current is None
    folder.close(epoch=4)
    assert folder.ledger().closed


def test_one_process_at_a_time_writes_invoices(folder: InvoiceFolder) -> None:
    folder.publish(content("one"))
    with (folder.folder.parent / ".lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(StoreUnavailable, match="another process is writing it; bill the month"):
            folder.publish(content("two"))
    assert shown(folder) == "one 1"
