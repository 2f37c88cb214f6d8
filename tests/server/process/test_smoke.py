"""A node starts, serves a page, and shuts down."""

from pathlib import Path

from tests.support.nodes import RunningNode
from tests.support.waiting import wait_for


def test_a_node_serves_a_page_and_logs_it(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "index.html").write_text("<p>hello")
    with RunningNode(tmp_path / "site", tmp_path) as node:
        reply = node.get("/")
        assert (reply.status, reply.body) == (200, b"<p>hello")
        assert node.admin("/livez") == "ok\n"
        wait_for(lambda: len(node.log()) == 1, "the line in the log")
        assert node.stop() == 0
    assert [line["path"] for line in node.log()] == ["/"]
