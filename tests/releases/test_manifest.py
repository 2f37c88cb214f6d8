"""Manifests: equal releases have equal bytes, and bad ones are refused with a reason."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qosweb.releases.manifest import (
    BadManifest,
    ManifestFile,
    check_path,
    decode_manifest,
    digest_of,
    encode_manifest,
    make_manifest,
)

A, B = digest_of(b"a"), digest_of(b"b")


def test_equal_files_make_equal_bytes() -> None:
    one, two = ManifestFile("a/x", A, 1, 5), ManifestFile("b", B, 1, 6)
    assert encode_manifest(make_manifest([one, two])) == encode_manifest(make_manifest([two, one]))


def test_the_bytes_are_those_of_version_1() -> None:
    manifest = make_manifest([ManifestFile("index.html", A, 1, 5)])
    assert encode_manifest(manifest) == f'{{"files":[["index.html","{A}",1,5]],"version":1}}'.encode()
    assert decode_manifest(encode_manifest(manifest)) == manifest


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ([["../x", A, 1, 1]], "hidden segment"),
        ([["a//x", A, 1, 1]], "empty"),
        ([["/x", A, 1, 1]], "empty"),
        ([[".git/config", A, 1, 1]], "hidden"),
        ([["a\\x", A, 1, 1]], "backslash"),
        ([["a\nx", A, 1, 1]], "control"),
        ([["x" * 256, A, 1, 1]], "255"),
        ([["x", "A" * 64, 1, 1]], "SHA-256"),
        ([["x", A, -1, 1]], "negative"),
        ([["b", A, 1, 1], ["a", B, 1, 1]], "sorted"),
        ([["a", A, 1, 1], ["a", B, 1, 1]], "twice"),
        ([["a", A, 1, 1], ["a/b", B, 1, 1]], "a is both a file and a folder"),
        ([["a/b", A, 1, 1], ["a/b-c", A, 1, 1], ["a/b/c/d", B, 1, 1]], "a/b is both a file and a folder"),
        ([["a", A, "1", 1]], "not a manifest"),
    ],
)
def test_bad_manifests(files: object, why: str) -> None:
    with pytest.raises(BadManifest, match=why):
        decode_manifest(json.dumps({"files": files, "version": 1}).encode())


@pytest.mark.parametrize("data", [b"", b"{}", b"[1]", b"\xff", b'{"files":[],"version":2}'])
def test_what_is_no_manifest(data: bytes) -> None:
    with pytest.raises(BadManifest):
        decode_manifest(data)


@given(st.text(max_size=40))
def test_accepted_paths_are_canonical(path: str) -> None:
    if not check_path(path):
        segments = path.split("/")
        assert all(one and one not in (".", "..") for one in segments)
        assert segments[0] == ".well-known" or not any(one.startswith(".") for one in segments)
