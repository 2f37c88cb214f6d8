"""Messages on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cluster.runtime.bulk.spool import PACKET_LEN, DiskSpool, OutgoingFile

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("size", [0, 1, PACKET_LEN - 1, PACKET_LEN, PACKET_LEN + 1, 5 * PACKET_LEN])
def test_content_survives_packets_in_any_order(tmp_path: Path, size: int) -> None:
    content = bytes(at % 251 for at in range(size))
    source = OutgoingFile(tmp_path / "x.out")
    source.append(content[:700])
    source.append(content[700:])
    source.is_ended = True
    spool = DiskSpool(tmp_path / "spool")
    for packet in reversed(range(source.available)):
        spool.write(4, packet, source.read(packet))
    path, length = spool.deliver(4)
    assert (path.read_bytes(), length) == (content, size)
    assert [spool.read(4, packet) for packet in range(source.available)] == [
        source.read(packet) for packet in range(source.available)
    ]
    spool.discard(4)
    assert path.read_bytes() == content
    source.remove()
    assert not (tmp_path / "x.out").exists()


def test_a_packet_that_is_not_full_is_not_available_before_the_end(tmp_path: Path) -> None:
    source = OutgoingFile(tmp_path / "x.out")
    source.append(bytes(PACKET_LEN + 5))
    assert source.available == 1
    source.is_ended = True
    assert source.available == 2
    source.remove()


def test_files_of_an_earlier_process_are_removed_and_others_are_not(tmp_path: Path) -> None:
    for name in ("1.in", "2.done", "3.out", "notes.txt"):
        (tmp_path / name).touch()
    DiskSpool(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
