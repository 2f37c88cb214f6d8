"""Who counts as one client, and how many places of a bounded resource it may hold."""

from qosweb.server.connection.client_share import SharedPlaces, client_key, part_of


def test_a_part_is_rounded_down_but_never_nothing() -> None:
    assert [part_of(total, 250_000) for total in (1, 3, 4, 7, 8, 1000)] == [1, 1, 1, 1, 2, 250]
    assert part_of(1000, 1_000_000) == 1000


def test_an_ipv6_host_is_one_client_with_all_its_addresses() -> None:
    assert client_key("2001:db8::1") == client_key("2001:db8::ffff:1%eth0") != client_key("2001:db8:0:1::1")
    assert client_key("::ffff:192.0.2.1") == client_key("192.0.2.1") == "192.0.2.1"


def test_places_are_for_all_and_some_for_each() -> None:
    places = SharedPlaces(4, 500_000)
    for client in ("2001:db8::1", "2001:db8::2"):
        assert places.has_room_for(client)
        places.take(client)
    assert not places.has_room_for("2001:db8::3")
    assert places.has_room_for("192.0.2.1")
    for _ in range(2):
        places.take("192.0.2.1")
    assert places.is_full
    assert not places.has_room_for("192.0.2.2")
    places.give_back("2001:db8::9")
    assert places.has_room_for("2001:db8::1")
    assert not places.has_room_for("192.0.2.1")
    assert places.taken == 3


def test_a_place_is_taken_only_if_there_is_room() -> None:
    """The short way of the fast path to an upstream server has the same limits."""
    places = SharedPlaces(4, 500_000)
    assert [places.try_take(client) for client in ("2001:db8::1", "2001:db8::2", "2001:db8::3")] == [True, True, False]
    assert [places.try_take("192.0.2.1") for _ in range(3)] == [True, True, False]
    assert not places.try_take("192.0.2.2")  # all are taken
    places.give_back("2001:db8::2")
    assert not places.try_take("192.0.2.1")
    assert places.try_take("192.0.2.2")
    assert places.is_full
