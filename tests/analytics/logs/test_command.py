"""The command as a user runs it: on the log of a node, and with a separate Spark master and worker on loopback."""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark

from qosweb.analytics.spark import java
from tests.support.nodes import RunningNode, run_command
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

SPEC = "</shop>.available = always\n</free>.server_resource < 10%\n"


@contextmanager
def daemon(scratch: Path, name: str, *options: str) -> Iterator[list[str]]:
    """A process of Spark's standalone cluster; its log lines are appended to the list."""
    jars = Path(pyspark.__file__).parent / "jars" / "*"
    environ = {"PATH": os.environ["PATH"], "SPARK_LOCAL_IP": "127.0.0.1"} | java.environment(os.environ)
    environ |= {"SPARK_HOME": str(Path(pyspark.__file__).parent), "SPARK_WORKER_DIR": str(scratch / "work")}
    environ["SPARK_SCALA_VERSION"] = "2.13"  # else it is looked for where a source tree would have it
    command = [environ["QOSWEB_JAVA"], "-Xmx512m", "-XX:TieredStopAtLevel=1", "-cp", str(jars)]
    process = subprocess.Popen(
        [*command, f"org.apache.spark.deploy.{name}", "--host", "127.0.0.1", "--webui-port", "0", *options],
        env=environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=scratch,
    )
    said: list[str] = []
    assert process.stderr
    reader = threading.Thread(target=said.extend, args=(process.stderr,), daemon=True)
    reader.start()
    try:
        yield said
    finally:
        process.terminate()
        process.wait(30)
        reader.join(30)
        process.stderr.close()


def found(said: list[str], pattern: str) -> str:
    def look() -> str | None:
        return next((match[1] for line in list(said) if (match := re.search(pattern, line))), None)

    return wait_for(look, pattern, 120)


def test_a_node_its_log_and_a_spark_cluster(tmp_path: Path) -> None:
    root, spec, out = tmp_path / "root", tmp_path / "s.webqos", tmp_path / "out"
    (root / "shop").mkdir(parents=True)
    (root / "shop" / "index.html").write_text("<p>hello")
    spec.write_text(SPEC)
    with RunningNode(root, tmp_path, "--spec", str(spec)) as node:
        for _ in range(5):
            assert node.get("/shop/").status == 200
        node.stop()
    with daemon(tmp_path, "master.Master", "--port", "0") as master:
        url = found(master, r"(spark://127\.0\.0\.1:\d+)")
        with daemon(tmp_path, "worker.Worker", "--cores", "2", "--memory", "1g", url) as worker:
            found(worker, r"(Successfully registered)")
            ran = run_command("analyze", str(node.access_log), "--out", str(out), "--master", url, timeout_s=400)
    assert ran.returncode == 0, ran.stderr
    assert "WARN" not in ran.stderr
    report = json.loads((out / "report.json").read_text())
    promises = {one["rule"]: one["outcome"] for one in report["promises"]}
    assert promises["</shop>.available = always"] == "held"
    assert promises["</free>.server_resource < 10%"] == "not tested"
    assert (report["outcome"], report["lines"], report["bad_lines"]) == ("held", 5, [])
    assert (out / "report.html").read_text().startswith("<!doctype html>")
    *_, verdict, where = ran.stdout.splitlines()
    assert verdict.startswith("held: 5 lines")
    assert where == f"full report: {out / 'report.html'}"
