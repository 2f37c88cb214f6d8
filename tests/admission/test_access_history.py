"""Access history: ages of accesses, and its memory bound."""

from qosweb.admission import access_history
from qosweb.admission.access_history import AccessHistory


def test_ages() -> None:
    seen = AccessHistory()
    assert seen.of_client_ms(2, "10.0.0.1", 5.0) is None
    seen.note([1, 2], "10.0.0.1", 5.0)
    assert seen.of_client_ms(2, "10.0.0.1", 7.0) == 2000
    assert seen.of_client_ms(2, "10.0.0.2", 7.0) is None
    seen.note_path("/a", 6.0)
    assert seen.of_path_ms("/a", 6.001) in (0, 1)


def test_clients_cannot_fill_the_memory() -> None:
    seen = AccessHistory()
    for number in range(access_history.REMEMBERED_MAX + 100):
        seen.note([1], f"client{number}", float(number))
    assert len(seen._by_client) == access_history.REMEMBERED_MAX
    assert seen.of_client_ms(1, "client0", 0.0) is None
    assert seen.of_client_ms(1, f"client{number}", float(number)) == 0
