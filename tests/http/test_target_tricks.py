"""Known path traversal attacks, each with the expected result.

Three outcomes are safe: 400, 404, and a path whose odd segments are plain names below the root. The last is
right for a trick that only works where someone decodes twice, folds Unicode or runs another system: refusing
those would hide files with odd but honest names.
"""

import pytest

from qosweb.http.targets import BadTarget, parse_target


def outcome(raw: str) -> int | str:
    try:
        return parse_target(raw).path
    except BadTarget as refused:
        return refused.status


@pytest.mark.parametrize(
    "raw",
    [
        "/..",
        "/../",
        "/../etc/passwd",
        "/../../../../../../etc/passwd",
        "/a/../b",
        "/a/..",
        "/a/b/../../../etc/passwd",
        "/.",
        "/./",
        "/./a",
        "/a/./b",
        "/a/.",
        "//..//..//etc/passwd",
        "/a//../b",
        "/.well-known/../.git",
    ],
)
def test_3986_5_2_4_dot_segments(raw: str) -> None:
    assert outcome(raw) == 400


@pytest.mark.parametrize(
    "raw",
    [
        "/%2e%2e/etc/passwd",
        "/%2E%2E/etc/passwd",
        "/%2e%2E/etc/passwd",
        "/.%2e/etc/passwd",
        "/%2e./etc/passwd",
        "/%2e",
        "/a/%2e/b",
        "/a/%2e%2e",
        "/a/%2e%2e?b",
    ],
)
def test_escaped_dot_segments(raw: str) -> None:
    assert outcome(raw) == 400


@pytest.mark.parametrize(
    "raw",
    [
        "/..%2fetc%2fpasswd",
        "/..%2Fetc",
        "/%2e%2e%2fetc%2fpasswd",
        "/a%2fb",
        "/a%2F..%2Fb",
        "/%2f",
        "/%2Fetc/passwd",
        "/%2f%2fexample.org",
    ],
)
def test_escaped_slashes(raw: str) -> None:
    assert outcome(raw) == 400


@pytest.mark.parametrize(
    "raw",
    [
        "/..\\etc",
        "/..\\..\\windows\\win.ini",
        "\\..\\a",
        "\\\\server\\share",
        "/\\example.org",
        "/a\\b",
        "/..%5c",
        "/..%5C..%5Cwindows",
        "/%5c%5cserver%5cshare",
        "/%5cexample.org",
        "/%2e%2e%5c",
        "/a/..%5c../b",
        "/%5c..%5c",
        "/\\\\?\\C:\\boot.ini",
    ],
)
def test_backslashes(raw: str) -> None:
    assert outcome(raw) == 400


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        ("/%252e%252e/etc/passwd", "/%2e%2e/etc/passwd"),
        ("/%252e%252e%252fetc", "/%2e%2e%2fetc"),
        ("/%25252e", "/%252e"),
        ("/%255c..%255c", "/%5c..%5c"),
        ("/%2500", "/%00"),
        ("/a%252fb", "/a%2fb"),
        ("/%%32%65", 400),  # decodes to %2e, for those who skip the broken escape
        ("/%%32%65%%32%65/", 400),
        ("/%2%65", 400),
        ("/..%252f", 404),
        ("/..%255c", 404),
    ],
)
def test_double_escapes_are_decoded_once(raw: str, path: int | str) -> None:
    assert outcome(raw) == path


@pytest.mark.parametrize(
    "raw",
    [
        "/%u002e%u002e/",
        "/%u2215",
        "/%u005c",
        "/%U002e",
        "/%",
        "/%2",
        "/a%",
        "/a%2",
        "/%zz",
        "/%g0",
        "/%0g",
        "/% 0",
        "/%-1",
        "/%+2e",
        "/%0x2e",
        "/%\uff12e",
        "/&#46;&#46;/",  # and a fragment
        "/%c0%2",
    ],
)
def test_broken_and_invented_escapes(raw: str) -> None:
    assert outcome(raw) == 400


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        ("/%c0%ae%c0%ae/etc/passwd", "/\udcc0\udcae\udcc0\udcae/etc/passwd"),
        ("/%C0%AE/", "/\udcc0\udcae/"),
        ("/%e0%80%ae%e0%80%ae/", "/\udce0\udc80\udcae\udce0\udc80\udcae/"),
        ("/%f0%80%80%ae", "/\udcf0\udc80\udc80\udcae"),
        ("/%f8%80%80%80%ae", "/\udcf8\udc80\udc80\udc80\udcae"),
        ("/a%c0%afb", "/a\udcc0\udcafb"),
        ("/a%c1%9cb", "/a\udcc1\udc9cb"),
        ("/%c0%80", "/\udcc0\udc80"),
        ("/%ed%a0%80", "/\udced\udca0\udc80"),  # an encoded surrogate
        ("/..%c0%af", 404),
        ("/..%c1%9c..%c1%9c", 404),
        ("/%c0%2e%c0%2e/", "/\udcc0.\udcc0./"),
        ("/%c0.%c0./", "/\udcc0.\udcc0./"),
    ],
)
def test_overlong_utf_8_stays_the_bytes_it_is(raw: str, path: int | str) -> None:
    assert outcome(raw) == path


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        ("/%ef%bc%8e%ef%bc%8e/", "/\uff0e\uff0e/"),  # fullwidth full stops
        ("/%e2%80%a5/", "/\u2025/"),  # two dot leader, '..' under NFKC
        ("/a%ef%bc%8fb", "/a\uff0fb"),  # fullwidth solidus
        ("/a%e2%88%95b", "/a\u2215b"),  # division slash
        ("/a%ef%bc%bcb", "/a\uff3cb"),  # fullwidth reverse solidus
        ("/%e2%80%8b..", "/\u200b.."),  # zero width space
        ("/%ef%bb%bf..", "/\ufeff.."),  # byte order mark
        ("/%c2%85", "/\x85"),  # a C1 control is no control byte
        ("/..%ef%bc%8f", 404),
    ],
)
def test_lookalikes_are_not_folded(raw: str, path: int | str) -> None:
    assert outcome(raw) == path


@pytest.mark.parametrize(
    "raw",
    [
        "/\uff0e\uff0e/",
        "/\u2025",
        "/caf\u00e9",
        "/\udcc0\udcae",
        "/\udcff",
        "/a?\u00e9",
        "/a?\udcff",
        "http\u017f://example.org/",  # folds to 's' where case is ignored carelessly
        "http://ex\u00e4mple.org/",
    ],
)
def test_raw_bytes_that_are_not_ascii(raw: str) -> None:
    assert outcome(raw) == 400


@pytest.mark.parametrize("code", [*range(0x20), 0x7F])
def test_control_characters(code: int) -> None:
    assert outcome(f"/a%{code:02x}b") == outcome(f"/a%{code:02X}b") == 400
    assert outcome(f"/a{chr(code)}b") == outcome(f"/a?{chr(code)}") == outcome(f"{chr(code)}/a") == 400


@pytest.mark.parametrize(
    "raw",
    [
        "/etc/passwd%00",
        "/etc/passwd%00.html",
        "/..%00/",
        "/%00../",
        "/.%00./",
        "/%2e%00%2e",
        "/a%0d%0aSet-Cookie:%20x=y",
        "/a%0aLocation:%20http://example.org",
        "/a\r\nHost: b",
        "/a b",
        "/a HTTP/1.1",
        "/a?b c",
    ],
)
def test_null_bytes_line_breaks_and_raw_spaces(raw: str) -> None:
    assert outcome(raw) == 400


@pytest.mark.parametrize(
    "raw",
    [
        "/..;/admin",
        "/..;a=b/x",
        "/.;/a",
        "/%2e%2e;/a",
        "/....//",
        "/....//....//etc/passwd",
        "/.../a",
        "/.....",
        "/..%20/a",
        "/.%20./a",
        "/..%3f",
        "/..:/a",
        "/..::$INDEX_ALLOCATION/a",
        "/..a",
        "/.git%20",
        "/.git./config",
        "/.git::$DATA",
        "/.%e2%80%8bgit",
    ],
)
def test_nearly_dot_segments_are_hidden_names(raw: str) -> None:
    assert outcome(raw) == 404


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        ("/a;/../b", 400),
        ("/a;..", "/a;.."),
        ("/;/a", "/;/a"),
        ("/a;jsessionid=1/b", "/a;jsessionid=1/b"),
        ("/a/..;", 404),
        ("/;..%2f", 400),
    ],
)
def test_path_parameters_are_part_of_the_name(raw: str, path: int | str) -> None:
    assert outcome(raw) == path


@pytest.mark.parametrize(
    "raw",
    [
        "/C:/windows/win.ini",
        "/c|/windows",
        "/C:",
        "/file.txt::$DATA",
        "/CON",
        "/nul.html",
        "/COM1",
        "/aux/",
        "/PROGRA~1",
        "/~root/",
        "/~",
        "/trailing.",
        "/a.../b",
        "/$HOME",
        "/${HOME}",
        "/*",
        "/-rf",
        "/|id",
        "/etc/passwd",  # below the root like any other
        "/proc/self/environ",
        "/dev/stdin",
        "/file:/etc/passwd",
    ],
)
def test_names_that_mean_something_elsewhere_are_plain_names(raw: str) -> None:
    assert outcome(raw) == raw


def test_windows_names_with_a_trailing_space_keep_it() -> None:
    assert outcome("/a%20/b.html%20") == "/a /b.html "


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        ("//example.org/..", 400),
        ("//example.org/%2e%2e", 400),
        ("//example.org/a", "/example.org/a"),
        ("///example.org", "/example.org"),
        ("////example.org/%2e%2e%2f", 400),
        ("/\\example.org/", 400),
        ("//example.org\\@other/", 400),
        ("/http://example.org/", "/http:/example.org/"),
        ("//user@example.org/", "/user@example.org/"),
        ("//", "/"),
    ],
)
def test_network_path_references(raw: str, path: int | str) -> None:
    """3986 4.2: //host is a reference to another host in a Location field; here it never is."""
    assert outcome(raw) == path


@pytest.mark.parametrize(
    "raw",
    [
        "http://",
        "http:///",
        "http:///etc/passwd",
        "http://:80/",
        "http:/example.org/",
        "http:example.org",
        "http:\\\\example.org\\",
        "http://user@example.org/",
        "http://user:secret@example.org/",
        "http://@example.org/",
        "http://example.org@/",
        "http://example.org%40other/%00",
        "http://example.org\\@other/",
        "http://example.org\\.other/",
        "http://example.org:99999/",
        "http://example.org:80:80/",
        "http://example.org:x/",
        "http://exa mple.org/",
        "http://example.org%2fetc/..",
        "http://[::1/",
        "http://[x]/",
        "http://example.org/..",
        "http://example.org/../etc/passwd",
        "http://example.org/%2e%2e/",
        "http://example.org/a#b",
        "http://example.org#@other/",
        "http://example.org?a#b",
        " http://example.org/",
        "file:///etc/passwd",
        "ftp://example.org/",
        "gopher://example.org/",
        "javascript:alert(1)",
        "data:text/html,x",
        "httpx://example.org/",
        "xhttp://example.org/",
        "https:example.org/",
        "ws://example.org/",
    ],
)
def test_absolute_form_tricks(raw: str) -> None:
    assert outcome(raw) == 400


def test_absolute_form_hides_nothing() -> None:
    assert outcome("http://example.org/.git/config") == 404
    assert outcome("http://example.org/" + "a" * 256) == 404


@pytest.mark.parametrize("raw", ["/a#b", "/#", "/a?b#c", "/#/../etc", "#", "/a%20#"])
def test_9112_3_2_a_target_has_no_fragment(raw: str) -> None:
    assert outcome(raw) == 400
