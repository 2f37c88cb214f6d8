"""``loadgen experiments``: runs the paper's evaluation against real nodes, which it starts itself."""

from __future__ import annotations

import difflib
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from loadgen.send.spread import parse_spread
from qosweb.errors import UsageError, read_option
from qosweb.plots import need_matplotlib
from qosweb.units import parse_count, parse_number

if TYPE_CHECKING:
    import argparse

    from loadgen.experiments.experiment import Experiment
    from loadgen.experiments.series import CompletedExperiment

_NODES_MAX = 9
_SCALE_MAX = 100.0


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Run experiments against nodes on this machine, each with a criterion and a verdict; write a CSV file and a "
        "plot for each, and report.html for all. Without names, list the experiments. Exit code 0; 1 if one "
        "fails; 2 if it cannot run."
    )
    parser.epilog = """\
examples:
  loadgen experiments
  loadgen experiments shares-16k always-16k --quick --out report
  loadgen experiments all --out report"""
    parser.add_argument("names", metavar="NAME", nargs="*", help="names of experiments, or all")
    parser.add_argument("--out", metavar="DIR", help="folder for reports, logs and results; its files are replaced")
    size = parser.add_argument_group("size and load")
    size.add_argument("--quick", action="store_true", help="a few seconds each, with looser criteria")
    size.add_argument("--scale", metavar="X", default="1", help="multiply durations by X (1)")
    size.add_argument("--pipe-scale", metavar="X", default="1", help="multiply pipe widths and request rates by X (1)")
    size.add_argument("--nodes", metavar="N", help="divide the pipe of single-node experiments over N nodes (1)")
    size.add_argument(
        "--spread",
        metavar="HOW",
        default="even",
        help="distribution of the load over several nodes: one (the first), even, skewed[:S] (even)",
    )
    size.add_argument("--seed", metavar="N", default="1", help="random seed (1)")
    parser.add_argument("--json", action="store_true", help="print the verdicts as JSON")
    parser.add_argument("--no-analysis", action="store_true", help="do not run `qosweb analyze` on the logs at the end")
    parser.set_defaults(act=_act)


def _act(arguments: argparse.Namespace) -> int:
    from loadgen.experiments.catalogue import BY_NAME, CATALOGUE
    from loadgen.experiments.series import carry_out, document
    from loadgen.experiments.workbench import Size  # imported here, so that other commands start fast

    if not arguments.names:
        for experiment in CATALOGUE:
            print(f"{experiment.name:<21}{experiment.source:<18}{experiment.title}")
        return 0
    chosen = _chosen(arguments.names, BY_NAME)
    if not arguments.out:
        raise UsageError("--out is missing: a folder for the report, such as --out report")
    if not arguments.spread.startswith(("one", "even", "skewed")):
        raise UsageError(
            f"--spread '{arguments.spread}': write one, even, skewed, or a stronger skew such as skewed:1.5"
        )
    parse_spread(arguments.spread, 2)
    if not arguments.seed.isdigit() or len(arguments.seed) > 12:
        raise UsageError(f"--seed: '{arguments.seed}' is not a whole number")
    count = read_option(parse_count, arguments.nodes, "--nodes") if arguments.nodes else 1
    if count > _NODES_MAX:
        raise UsageError(f"--nodes: at most {_NODES_MAX}")
    size = Size(
        arguments.quick, _scale(arguments.scale, "--scale"), _scale(arguments.pipe_scale, "--pipe-scale"), count,
        arguments.spread, int(arguments.seed),
    )  # fmt: skip
    need_matplotlib("the report")
    begun = datetime.now(UTC).isoformat(timespec="seconds")
    done = carry_out(
        chosen,
        Path(arguments.out),
        size,
        lambda text: print(text, file=sys.stderr, flush=True),
        analysis=not arguments.no_analysis,
    )
    if arguments.json:
        print(msgspec.json.format(msgspec.json.encode(document(done, begun, size)), indent=2).decode())
    else:
        print("".join(_render(one) for one in done) + f"{Path(arguments.out) / 'report.html'}")
    return 1 if any(one.findings.verdict == "fail" for one in done) else 0


def _chosen(names: list[str], known: dict[str, Experiment]) -> list[Experiment]:
    if "all" in names:
        return list(known.values())
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, [*known, "all"], n=1)
            hint = f"did you mean '{near[0]}'?" if near else f"there are {', '.join(known)}, or all"
            raise UsageError(f"no experiment '{name}'; {hint}")
    return [known[name] for name in dict.fromkeys(names)]


def _scale(text: str, option: str) -> float:
    scale = read_option(lambda one: parse_number(one, "a number such as 2"), text, option)
    if not 0 < scale <= _SCALE_MAX:
        raise UsageError(f"{option}: has to be more than 0 and at most {_SCALE_MAX:g}")
    return scale


def _render(one: CompletedExperiment) -> str:
    findings = one.findings
    lines = [f"{findings.verdict.upper():<8}{one.experiment.name}  ({one.lasted_s:.0f} s)  {findings.seen}"]
    if findings.skipped:
        lines[0] += findings.skipped
    else:
        lines.append(f"{'':8}criterion: {one.criterion}")
    lines += [f"{'':8}{'note:':<8}{note}" for note in one.not_applied]
    lines += [f"{'':8}{'holds:' if c.holds else 'FAILS:':<8}{c.text}  ({c.actual})" for c in findings.checks]
    return "\n".join(lines) + "\n"
