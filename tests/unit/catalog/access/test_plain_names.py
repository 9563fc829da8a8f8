"""What a plain name means, as examples and for any sequence of changes."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.catalog.support import ALICE, BOB, CAROL, DAVE, ROOT

from opentalos.catalog.access.acceptance import ACCEPTED_MAX
from opentalos.catalog.access.authorize import permissions_of
from opentalos.catalog.access.grants import granted, revoked
from opentalos.catalog.access.plain_names import PlainNames, accepted_by
from opentalos.catalog.topics.topic import Topic, decode_topic, encode_topic
from opentalos.model.errors import BadRequest, QuotaExceeded, TalosError
from opentalos.model.identity import GUEST, Grantee, GrantType, Permission, Principal

EVERYONE = (ALICE, BOB, CAROL, DAVE, ROOT, GUEST)
OWNERS = ("alice", "bob", "carol", "CLacme", "eve")
GRANTEES = ("alice", "bob", "carol", "dave", "CIblue", "CIred", "CLacme", "root", "guest")


def topic(owner: str, *grantees: str) -> Topic:
    return Topic(
        uuid=f"u-{owner}",
        owner=owner,
        name="feed",
        partitions=1,
        consumer_partitions=1,
        partitions_ever=1,
        retention_s=3_600,
        acl={_grantee(name): int(Permission.PUT_MESSAGE) for name in grantees},
    )


def _grantee(name: str) -> Grantee:
    return Grantee(GrantType.GUEST if name == "guest" else GrantType.DEVELOPER, name)


def names_of(*topics: Topic) -> PlainNames[Topic]:
    names: PlainNames[Topic] = PlainNames()
    for item in topics:
        names.add(item)
    return names


def accept(names: PlainNames[Topic], caller: Principal, item: Topic) -> Topic:
    changed = replace(item, accepted=accepted_by(names, caller, item, accepted=True))
    names.remove(item)
    names.add(changed)
    return changed


def test_a_stranger_cannot_place_a_topic_under_a_name_in_use() -> None:
    names = names_of(topic("eve", "bob", "CLacme", "CIblue", "guest"))
    assert [names.meant(caller, "feed") for caller in EVERYONE] == [None] * len(EVERYONE)


def test_each_principal_accepts_for_itself() -> None:
    names = names_of(topic("eve", "CLacme"))
    (found,) = [names.owned("eve", "feed")]
    assert found is not None
    accept(names, CAROL, found)
    assert names.meant(CAROL, "feed") is not None
    assert names.meant(DAVE, "feed") is None


def test_a_name_is_accepted_for_one_topic_only() -> None:
    first, second = topic("eve", "bob"), topic("alice", "bob")
    names = names_of(first, second)
    first = accept(names, BOB, first)
    assert accept(names, BOB, first) == first
    with pytest.raises(BadRequest, match="feed already means eve/feed; write alice/feed"):
        accept(names, BOB, second)
    names.add(own := topic("bob"))
    with pytest.raises(BadRequest, match="feed already means"):
        accept(names, BOB, first)
    assert names.meant(BOB, "feed") is own


def test_two_acceptances_of_two_servers_mean_nothing() -> None:
    topics = [replace(topic(owner, "bob"), accepted={"bob": ("bob",)}) for owner in ("eve", "al")]
    names = names_of(*topics)
    assert names.meant(BOB, "feed") is None
    names.remove(topics[0])
    assert names.meant(BOB, "feed") is topics[1]


def test_owners_administrators_and_guests_have_nothing_to_accept() -> None:
    item = topic("CLacme", "bob", "guest")
    for caller in (CAROL, ROOT, GUEST):
        with pytest.raises(BadRequest, match="nothing is granted to"):
            accepted_by(names_of(item), caller, item, accepted=True)


def test_an_acceptance_lasts_as_long_as_one_of_its_grants() -> None:
    item = topic("eve", "bob", "CIblue")
    item = accept(names_of(item), BOB, item)
    item = granted(item, _grantee("bob"), int(Permission.GET_MESSAGE))
    item = revoked(item, _grantee("bob"))
    assert item.accepted == {"bob": ("CIblue",)}
    assert revoked(item, _grantee("CIblue")).accepted == {}
    assert granted(revoked(item, _grantee("CIblue")), _grantee("CIblue"), 1).accepted == {}


def test_a_binding_to_an_organisation_is_a_grant_to_accept() -> None:
    item = replace(topic("eve"), bound_organisation="CLacme", bound_team="CIred")
    names = names_of(item)
    assert names.meant(CAROL, "feed") is None
    accepted = accept(names, CAROL, item)
    assert accepted.accepted == {"carol": ("CIred", "CLacme")}
    assert names.meant(CAROL, "feed") is accepted


def test_acceptances_are_bounded_and_stored() -> None:
    item = topic("eve", "bob", "CIblue")
    full = replace(item, accepted={f"p{index}": ("CIblue",) for index in range(ACCEPTED_MAX)})
    with pytest.raises(QuotaExceeded, match="limit 1000, measured 1000"):
        accepted_by(names_of(full), BOB, full, accepted=True)
    assert decode_topic(encode_topic(full)) == full


def test_an_error_shows_only_what_the_caller_may_use() -> None:
    names = names_of(topic("eve", "bob"), topic("alice"), topic("carol", "CIblue"))
    assert names.usable(BOB, "feed") == ["carol/feed", "eve/feed"]
    assert names.usable(DAVE, "feed") == []
    assert names.usable(BOB, "other") == []


CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["create", "remove", "grant", "revoke", "accept", "decline", "bind"]),
        st.sampled_from(OWNERS),
        st.sampled_from(GRANTEES),
        st.sampled_from(EVERYONE),
    ),
    max_size=30,
)


@given(CHANGES)
def test_a_plain_name_means_only_own_topics_or_the_one_that_was_accepted(
    changes: list[tuple[str, str, str, Principal]],
) -> None:
    names: PlainNames[Topic] = PlainNames()
    accepted: set[tuple[str, str]] = set()  # (principal, owner), said by the principal
    for change, owner, grantee, caller in changes:
        old = names.owned(owner, "feed")
        try:
            new = _changed(names, old, change, (owner, grantee), caller)
        except TalosError:
            continue
        if old is not None:
            names.remove(old)
        if new is not None:
            names.add(new)
        if change in ("create", "remove", "decline"):
            who = {caller.id} if change == "decline" else {known.id for known in EVERYONE}
            accepted -= {(principal, owner) for principal in who}
        elif change == "accept" and old is not None:
            accepted.add((caller.id, owner))
        for who_asks in EVERYONE:
            _check(names, who_asks, accepted)


def _changed(
    names: PlainNames[Topic],
    old: Topic | None,
    change: str,
    owner_and_grantee: tuple[str, str],
    caller: Principal,
) -> Topic | None:
    owner, grantee = owner_and_grantee
    if change == "create":
        return topic(owner)
    if old is None or change == "remove":
        return None
    if change == "grant":
        return granted(old, _grantee(grantee), int(Permission.GET_MESSAGE))
    if change == "revoke":
        return revoked(old, _grantee(grantee))
    if change == "bind":
        return replace(old, bound_organisation="CLacme", bound_team="CIblue")
    wanted = accepted_by(names, caller, old, accepted=change == "accept")
    return replace(old, accepted=wanted)


def _check(names: PlainNames[Topic], caller: Principal, accepted: set[tuple[str, str]]) -> None:
    found = names.meant(caller, "feed")
    own = {owner for owner in (caller.organisation, caller.id) if names.owned(owner, "feed")}
    if found is None:
        assert caller.anonymous or not own
    elif found.owner in (caller.organisation, caller.id):
        assert not caller.anonymous
        assert found.owner == caller.owner_id or caller.owner_id not in own
    else:
        assert not own
        assert (caller.id, found.owner) in accepted
        assert permissions_of(caller, found)
        assert len(names.accepted(caller, "feed")) == 1
