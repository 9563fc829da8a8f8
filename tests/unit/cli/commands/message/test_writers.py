"""The count of outcomes of produced messages."""

import pytest

from opentalos.cli.commands.message.writers import Account
from opentalos.sdk.errors import OutcomeUnknown, QuotaExceeded, Unavailable


def fail(error: BaseException) -> None:
    raise error


def test_every_message_has_one_outcome() -> None:
    account = Account()
    with account.taking(5):
        pass
    assert (account.stored, str(account)) == (5, "5 messages stored")
    with account.taking(2):
        fail(QuotaExceeded("full"))
    with account.taking(3):
        fail(OutcomeUnknown("no reply"))
    account.failed(1, Unavailable("later"), False)
    assert (account.stored, account.not_done, account.unknown) == (4, 3, 3)
    assert str(account) == "4 messages stored, 3 not stored, 3 unknown (may be stored)"
    assert isinstance(account.error, QuotaExceeded)


def test_an_interrupted_put_is_unknown_and_the_interrupt_is_raised() -> None:
    account = Account()
    with pytest.raises(KeyboardInterrupt), account.taking(1):
        raise KeyboardInterrupt
    assert str(account) == "0 messages stored, 1 unknown (may be stored)"


def test_the_singular_of_message() -> None:
    assert str(Account(taken=1)) == "1 message stored"
