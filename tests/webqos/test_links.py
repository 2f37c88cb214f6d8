"""Links of a page to its own site, from HTML and from Link fields."""

import pytest

from qosweb.webqos.links import LINKS_MAX, links_in_fields, links_in_html


@pytest.mark.parametrize(
    ("html", "links"),
    [
        ('<a href="b.html">', {"/dir/b.html"}),
        ('<a href="/b.html?x=1#y">', {"/b.html"}),
        ('<a href="../c/">', {"/c/"}),
        ('<a href="#top"><a href="">', set()),
        ('<a href="http://elsewhere.com/x"><a href="mailto:a@b.c"><a href="javascript:x()">', set()),
        ('<a href="http://www.x.com/own"><a href="//www.x.com/own2">', {"/own", "/own2"}),
        ('<base href="/other/"><img src=pic.png>', {"/other/pic.png"}),
        ('<img srcset="a.png 1x, /b.png 2x"><link rel=stylesheet href="/s.css">', {"/dir/a.png", "/b.png", "/s.css"}),
        ('<form action="/buy"><script src="/x.js"></script><iframe src="/f">', {"/buy", "/x.js", "/f"}),
        ('<A HREF="/caf%C3%A9">', {"/café"}),
        ("<a href='/../../etc'><a href='/%2e%2e/x'><a href='/.git'>", {"/etc"}),
        ("<a href='http://[bad'>", set()),
        ('<a href="https://www.x.com:8443/a"><a href="https://x.com/b">', {"/a"}),
        ('<meta http-equiv="Link" content="</next>; rel=next, <more>; rel=x">', {"/next", "/dir/more"}),
        ("<meta http-equiv=refresh content=\"5; URL='/soon'\">", {"/soon"}),
        ('<meta name="description" content="</no>"><meta http-equiv=refresh content=5>', set()),
        ("not html at all <<<>>>", set()),
    ],
)
def test_links_of_html(html: str, links: set[str]) -> None:
    assert links_in_html(html, "/dir/page.html", ("www.x.com",)) == links


@pytest.mark.parametrize(
    ("field", "links"),
    [
        ("</a>; rel=next", {"/a"}),
        ('<b.css>; rel="preload"; as=style, </c>;rel=x', {"/d/b.css", "/c"}),
        ("<https://other.com/x>; rel=next", set()),
        ("garbage", set()),
    ],
)
def test_links_of_fields(field: str, links: set[str]) -> None:
    assert links_in_fields([field], "/d/page", ("www.x.com",)) == links


def test_the_number_of_links_is_bounded() -> None:
    html = "".join(f'<a href="/{number}">' for number in range(LINKS_MAX * 2))
    assert len(links_in_html(html, "/")) == LINKS_MAX
