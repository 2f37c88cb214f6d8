"""Log lines of view changes: papers' vocabulary, with machine-readable fields at the end."""

from __future__ import annotations

import logging
import shlex
from typing import TYPE_CHECKING

from cluster import Group, Options
from cluster.names import ProcessId
from cluster.runtime.observe.log_fields import fields
from tests.cluster.runtime.loops import eventually, run

if TYPE_CHECKING:
    import pytest

KEY = b"k" * 32


def options(process: str, *contacts: str) -> Options:
    return Options(name=process, key=KEY, listen=("127.0.0.1:0",), contacts=contacts)


def shown(line: str) -> dict[str, str]:
    """The fields of a line."""
    return dict(word.split("=", 1) for word in line[line.index("event=") :].split(" "))


def test_every_step_of_a_view_change_has_a_line_with_fields(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with await Group.found(options("a")) as a:
            await a.primary_of(1)
            caplog.set_level(logging.INFO, "cluster.views")
            async with await Group.join(options("b", a.addresses[0])) as b:
                view = await a.primary_of(2)
                await b.primary_of(2)
            over = f"event=primary_lost view={view.id.epoch}:{view.id.digest} "
            await eventually(lambda: any(over in line for line in caplog.messages))
            said = [shown(line) for line in caplog.messages]
            assert {"hears", "start_change", "mbrshp.view", "view"} <= {line["event"] for line in said}
            which = {
                "view": f"{view.id.epoch}:{view.id.digest}",
                "epoch": str(view.id.epoch),
                "members": ",".join(map(str, view.members)),
            }
            for event in ("mbrshp.view", "view", "DVS-NEWVIEW", "DVS-REGISTER", "established"):
                told = [line for line in said if line["event"] == event and line["view"] == which["view"]]
                assert len(told) == 2, f"{event}: both of them say so"
                for line in told:
                    assert which.items() <= line.items()
                    if event != "mbrshp.view":
                        assert 0 <= float(line["took_ms"]) < 60_000
            moved = [line["transitional"] for line in said if line["event"] == "view" and line["view"] == which["view"]]
            assert sorted(moved) == sorted(map(str, view.members))  # each member comes from a different view

    run(story)


def test_ambiguous_values_are_quoted() -> None:
    told = fields("hears", hears=ProcessId('a "b" c=d', 3), gone="")
    assert told == r'event=hears hears="a \"b\" c=d.3" gone='
    assert shlex.split(told)[1] == 'hears=a "b" c=d.3'
