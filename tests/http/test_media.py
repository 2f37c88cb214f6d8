"""Media types by extension."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qosweb.http.media import _TYPES, media_type
from tests.http.wire import wire_text


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("index.html", "text/html; charset=utf-8"),
        ("site.css", "text/css; charset=utf-8"),
        ("app.js", "text/javascript; charset=utf-8"),
        ("app.mjs", "text/javascript; charset=utf-8"),
        ("notes.txt", "text/plain; charset=utf-8"),
        ("README.md", "text/markdown; charset=utf-8"),
        ("table.csv", "text/csv; charset=utf-8"),
        ("meeting.ics", "text/calendar; charset=utf-8"),
        ("data.json", "application/json"),
        ("app.js.map", "application/json"),
        ("site.webmanifest", "application/manifest+json"),
        ("feed.xml", "application/xml"),
        ("logo.svg", "image/svg+xml"),
        ("logo.png", "image/png"),
        ("photo.jpg", "image/jpeg"),
        ("photo.jpeg", "image/jpeg"),
        ("photo.gif", "image/gif"),
        ("photo.webp", "image/webp"),
        ("photo.avif", "image/avif"),
        ("favicon.ico", "image/vnd.microsoft.icon"),
        ("text.woff", "font/woff"),
        ("text.woff2", "font/woff2"),
        ("text.ttf", "font/ttf"),
        ("text.otf", "font/otf"),
        ("paper.pdf", "application/pdf"),
        ("all.zip", "application/zip"),
        ("all.tar", "application/x-tar"),
        ("all.tar.gz", "application/gzip"),
        ("code.wasm", "application/wasm"),
        ("song.mp3", "audio/mpeg"),
        ("song.ogg", "audio/ogg"),
        ("film.mp4", "video/mp4"),
        ("film.webm", "video/webm"),
    ],
)
def test_known_extensions(name: str, expected: str) -> None:
    assert media_type(name) == expected


@pytest.mark.parametrize("name", ["INDEX.HTML", "Index.Html", "a.b.htm", "dir.d/index.html"])
def test_only_the_extension_matters_in_any_case(name: str) -> None:
    assert media_type(name) == "text/html; charset=utf-8"


@pytest.mark.parametrize("name", ["", "html", "Makefile", "a.", "a.unknown", "a.html.bak", "a.html/b", "a.html "])
def test_9110_8_3_unknown_is_octets(name: str) -> None:
    assert media_type(name) == "application/octet-stream"


@pytest.mark.parametrize(("extension", "value"), sorted(_TYPES.items()))
def test_the_table_is_well_formed(extension: str, value: str) -> None:
    assert re.fullmatch(r"[0-9a-z]+", extension)
    assert re.fullmatch(r"(application|audio|font|image|text|video)/[0-9a-z.+-]+", value)


@given(wire_text("index .html . / HTML .css") | st.text())
def test_any_name_has_a_type(name: str) -> None:
    assert "/" in media_type(name)
