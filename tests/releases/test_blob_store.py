"""Blob store: content is verified before it gets its name, uploads continue, and unused content is deleted."""

from __future__ import annotations

import errno
import shutil
import time
from typing import TYPE_CHECKING

import pytest

from qosweb.releases.blob_store import UNUSED_S, BlobStore, WrongContent
from qosweb.releases.manifest import ManifestFile, digest_of, encode_manifest, make_manifest

if TYPE_CHECKING:
    from pathlib import Path

DIGEST = digest_of(b"content")


def test_an_interrupted_upload_continues(tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path)
    blobs.receive(DIGEST, 0, b"con")
    blobs = BlobStore(tmp_path)  # after a restart
    assert blobs.received(DIGEST) == 3
    assert not blobs.has(DIGEST)
    with pytest.raises(ValueError, match="offset 3, not 2"):
        blobs.receive(DIGEST, 2, b"x")
    blobs.receive(DIGEST, 3, b"tent")
    blobs.complete(DIGEST, 1000)
    assert blobs.has(DIGEST)
    assert blobs.received(DIGEST) == 0
    assert blobs.path_of(DIGEST).read_bytes() == b"content"
    assert blobs.path_of(DIGEST).stat().st_mtime == 1000


def test_wrong_content_gets_no_name(tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path)
    blobs.receive(DIGEST, 0, b"other")
    with pytest.raises(WrongContent):
        blobs.complete(DIGEST)
    assert not blobs.has(DIGEST)
    assert blobs.received(DIGEST) == 0
    file = ManifestFile("a", DIGEST, 7, 0)
    assert blobs.missing([file, file]) == [DIGEST]
    blobs.put(b"content")
    assert blobs.missing([file]) == []


def test_content_that_the_disk_has_lost_is_missing(tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path)
    blobs.put(b"content")
    path = blobs.path_of(DIGEST)
    path.chmod(0o644)
    path.write_bytes(b"con")
    assert not blobs.has(DIGEST, 7)
    assert blobs.missing([ManifestFile("a", DIGEST, 7, 0)]) == [DIGEST]


def test_a_damaged_list_of_files_is_deleted(tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path)
    data = encode_manifest(make_manifest([ManifestFile("a", DIGEST, 7, 0)]))
    name = blobs.put(data)
    assert blobs.read_manifest(name).files[0].path == "a"
    path = blobs.path_of(name)
    path.chmod(0o644)
    path.write_bytes(data.replace(b'"a"', b'"b"'))
    with pytest.raises(WrongContent):
        blobs.read_manifest(name)
    assert not blobs.has(name)


def test_unused_content_goes_when_it_is_old(tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path)
    kept, unused = blobs.put(b"kept"), blobs.put(b"unused")
    blobs.receive(DIGEST, 0, b"con")
    assert blobs.collect({kept}) == 0  # it may belong to an upload in progress
    assert blobs.collect({kept}, time.time() + UNUSED_S + 1) == 2
    assert blobs.has(kept)
    assert not blobs.has(unused)
    assert blobs.received(DIGEST) == 0


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path)
    blobs.check_space(0)
    blobs.check_space(1)
    with pytest.raises(OSError, match="bytes free") as raised:
        blobs.check_space(shutil.disk_usage(tmp_path).free)
    assert raised.value.errno == errno.ENOSPC


def test_the_ledger_file(tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path)
    assert blobs.read_ledger() == b""
    blobs.write_ledger(b"one")
    blobs.write_ledger(b"two")
    assert blobs.read_ledger() == b"two"
