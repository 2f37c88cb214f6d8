"""Verdicts on small tables, without Spark: untested rules, bounds that yield, and deviations that are no violation."""

from __future__ import annotations

from qosweb.analytics.judge.situations import MIXED, AccessTimes, situations
from qosweb.analytics.judge.verdicts import (
    CHANNEL,
    COST,
    LOAD,
    NEVER,
    OTHERS_LOAD,
    OTHERS_PAGES,
    PAGES,
    SHADOW,
    WindowJudge,
    judge_run,
    outcome_of,
    untested_rules,
    verdicts_needing_evidence,
)
from qosweb.analytics.read.policies import RESPONSES_MAX, LoggedPolicy, from_events, response_limits
from qosweb.analytics.read.rows import (
    HELD,
    NOT_TESTED,
    VIOLATED,
    AnalysisLimits,
    ClassAmount,
    ClassSums,
    ContendedSlot,
    EvidenceQuery,
    LogEvent,
    Part,
    PartKey,
    Verdict,
)
from qosweb.analytics.read.timeline import Timeline

SIZE = 1000
NAMES = [f"/{letter}" for letter in "abcdefghi"]


def policy_of(spec: str) -> LoggedPolicy:
    policies, troubles = from_events([LogEvent("policy", 0.0, "n1", 1, policy="p", text=spec)])
    assert not troubles
    return policies["p"]


def cell(
    name: str, served: int, lost: int = 0, *, size: int = SIZE, wait_ms: float = 0.0, scope: str = ""
) -> ClassSums:
    key = PartKey(0, "p", scope, 0)
    most = size if served else 0
    return ClassSums(
        key, name, served, lost, 0, 0, 0, served * size, most, wait_ms, (), served, 0, lost, served * size
    )  # fmt: skip


def judge(
    spec: str,
    *cells: ClassSums,
    busy_s: float = 10.0,
    limits: AnalysisLimits | None = None,
    nodes: int = 1,
    capacity: int = 0,
) -> dict[str, Verdict]:
    """The verdict on each rule, the worst of its directions."""
    policy = policy_of(spec)
    limits = limits or AnalysisLimits()
    members = [f"n{at}" for at in range(nodes)]
    events = [LogEvent("capacity", 0.0, node, 1, capacity_bps=capacity) for node in members] if capacity else []
    timeline = Timeline(events, members)
    when = {"p": situations(policy, timeline, {}, 0, 9, 1)}
    part = Part(cells[0].key, 10.0, busy_s, cells)
    found: dict[str, Verdict] = {}
    for verdict in WindowJudge({"p": policy}, when, timeline, limits).judge(part):
        known = found.get(verdict.rule)
        if known is None or (VIOLATED, HELD, NOT_TESTED).index(verdict.outcome) < (
            (VIOLATED, HELD, NOT_TESTED).index(known.outcome)
        ):
            found[verdict.rule] = verdict
    return found


def test_without_contention_shares_are_not_tested() -> None:
    spec = "</a>.server_resource > 90%\n</b>.server_resource < 5%"
    found = judge(spec, cell("/a", 10), cell("/b", 500), busy_s=0.0)
    assert {v.outcome for v in found.values()} == {NOT_TESTED}
    assert {v.reason for v in found.values()} == {"no contention"}


def test_short_contention_leaves_shares_untested() -> None:
    spec = "</a>.server_resource > 50%\n</b>.available = always"
    found = judge(spec, cell("/a", 10, 90), cell("/b", 100, 1), cell("default", 100), busy_s=1.0)
    assert found["</a>.server_resource > 50%"].reason == "contended for too short a time"
    assert found["</b>.available = always"].outcome == VIOLATED


def test_a_lower_bound_guarantees_at_most_the_demand() -> None:
    found = judge("</a>.server_resource > 50%", cell("/a", 100), cell("default", 400, 300))
    assert found["</a>.server_resource > 50%"].outcome == HELD
    assert "the whole demand" in found["</a>.server_resource > 50%"].reason


def test_an_upper_bound_gives_way_to_idle_capacity() -> None:
    spec = "</a>.server_resource < 20%"
    assert judge(spec, cell("/a", 700, 300), cell("default", 300))[spec].outcome == HELD
    assert judge(spec, cell("/a", 700, 300), cell("default", 300, 600))[spec].outcome == VIOLATED


def test_shares_exclude_always_available_classes() -> None:
    spec = "</a>.available = always\n</b>.server_resource > 50%"
    cells = cell("/a", 600), cell("/b", 200, 400), cell("default", 200, 400)
    assert {v.outcome for v in judge(spec, *cells).values()} == {HELD}


def test_lower_bounds_that_cannot_be_kept_together_yield() -> None:
    """Rates beyond the capacity: both are reduced in proportion, and neither is violated."""
    spec = "</a>.num_requests > 80\n</b>.num_requests > 80"
    found = judge(spec, cell("/a", 500, 400), cell("/b", 500, 400))
    assert {v.outcome for v in found.values()} == {HELD}
    short = judge(spec, cell("/a", 600, 300), cell("/b", 400, 500))
    assert short["</b>.num_requests > 80"].outcome == VIOLATED


CEILING_AND_FLOOR = "set lifetime = 500ms\n</a>.server_resource < 10%\n</b>.server_resource > 50%"
Second = tuple[tuple[int, int], tuple[int, int]]  # of two classes: requests served and held back
BOTH_LACK: Second = (10, 90), (90, 90)
ONE_PAUSES: Second = (60, 40), (40, 0)


def judge_divisions(*windows: list[Second | None], waiting: float = 0.0) -> list[str]:
    """The outcomes for the division in each window; seconds that are None are not contended.

    `waiting`: for which part of each second a request of the second class waits.
    """
    policy, limits = policy_of(CEILING_AND_FLOOR), AnalysisLimits()
    when = {"p": situations(policy, Timeline([], ["n1"]), {}, 0, 99, 1)}
    bench = WindowJudge({"p": policy}, when, Timeline([], ["n1"]), limits)
    found: list[str] = []
    for number, seconds in enumerate(windows):
        key = PartKey(10 * number, "p", "", 0)
        contended = [(10 * number + at, second) for at, second in enumerate(seconds) if second is not None]
        moments = tuple(
            ContendedSlot(
                slot,
                tuple(
                    ClassAmount(f"/{name}", done, lost, done * SIZE, waiting * (name == "b"), int(waiting > 0))
                    for name, (done, lost) in pairs
                ),
            )
            for slot, pairs in ((slot, zip("ab", second, strict=True)) for slot, second in contended)
        )
        cells = tuple(
            cell(f"/{name}", *(sum(second[at][what] for _, second in contended) for what in (0, 1)))._replace(key=key)
            for at, name in enumerate("ab")
        )
        part = Part(key, 10.0, float(len(contended)), cells, moments)
        found += [verdict.outcome for verdict in bench.judge(part) if verdict.kind == "division"]
    return found


def test_a_class_is_not_due_what_another_class_makes_up_for() -> None:
    made_up: Second = (0, 100), (100, 90)
    short_pause: Second = (20, 80), (80, 0)
    assert judge_divisions([made_up, short_pause] * 5) == [HELD]  # 10 % of all, as without pauses
    assert judge_divisions([made_up] * 10) == [VIOLATED]


def test_a_class_that_lacked_something_and_still_waits_has_not_paused() -> None:
    made_up: Second = (0, 100), (100, 90)
    nothing_lost: Second = (10, 80), (90, 0)
    short_pause: Second = (40, 60), (60, 0)
    window: list[Second | None] = [made_up, made_up, made_up, nothing_lost, short_pause] * 2
    assert judge_divisions(window, waiting=0.1) == [HELD]
    assert judge_divisions(window) == [VIOLATED]


def test_what_a_class_had_beyond_its_due_counts_in_the_next_window_for_four_seconds() -> None:
    before: list[Second | None] = [*[BOTH_LACK] * 9, ONE_PAUSES]
    nothing: Second = (0, 100), (100, 90)
    assert judge_divisions(before, [*[nothing] * 4, *[BOTH_LACK] * 6]) == [HELD, HELD]
    assert judge_divisions(before, [*[nothing] * 7, *[BOTH_LACK] * 3]) == [HELD, VIOLATED]
    assert judge_divisions([BOTH_LACK] * 10, [*[nothing] * 4, *[BOTH_LACK] * 6]) == [HELD, VIOLATED]
    assert judge_divisions([*before[:9], None], [*[nothing] * 4, *[BOTH_LACK] * 6]) == [HELD, VIOLATED]


def test_one_large_response_leaves_shares_untested() -> None:
    spec = "</a>.server_resource > 50%"
    found = judge(spec, cell("/a", 1, 5, size=100_000), cell("default", 500, 100))
    assert found[spec].reason == "too few requests: one response is larger than the tolerance"


def test_the_resolution_of_a_share_is_two_responses() -> None:
    """One response is 1.4 points: a shortfall of two responses is no violation, one of three points is."""
    spec = "</a>.server_resource > 50%"
    cells = cell("/a", 34, 20, size=1400), cell("default", 52_400, 9000, size=1)
    held = judge(spec, *cells)[spec]
    assert held.outcome == HELD
    assert held.reason == "47.60% of 50.00% (guaranteed); held: 2 responses are 2.80%"
    short = judge(spec, cell("/a", 33, 20, size=1400), cell("default", 53_800, 9000, size=1))[spec]
    assert (short.outcome, short.reason) == (VIOLATED, "46.20% of 50.00% (guaranteed)")
    assert {run.outcome for run in judge_run([held], AnalysisLimits())} == {HELD}
    assert {run.outcome for run in judge_run([held] * 12, AnalysisLimits())} == {VIOLATED}, (
        "by chance it is not always less"
    )


def test_short_lifetimes_leave_gaps_in_the_queue() -> None:
    """At 64 responses a second, 3 of a half fit into 0.1 s: by chance the queue is empty, and its share is lost."""
    spec = "</a>.server_resource > 50%"
    three_short = cell("/a", 300, 110), cell("default", 340, 70)
    short_lived = judge(f"set lifetime = 100ms\n{spec}", *three_short)[spec]
    assert short_lived.outcome == HELD
    assert "gaps between short-lived requests may be " in short_lived.reason
    assert judge(f"set lifetime = 1s\n{spec}", *three_short)[spec].outcome == VIOLATED
    much_short = cell("/a", 250, 160), cell("default", 390, 20)
    assert judge(f"set lifetime = 100ms\n{spec}", *much_short)[spec].outcome == VIOLATED


def test_a_class_with_few_requests_and_no_responses_is_untested() -> None:
    spec = "</a>.server_resource > 20%"
    assert judge(spec, cell("/a", 0, 5), cell("default", 40, 40))[spec].outcome == NOT_TESTED
    assert judge(spec, cell("/a", 0, 50), cell("default", 400, 40))[spec].outcome == VIOLATED


def test_the_fixed_cost_of_requests_counts_if_given() -> None:
    """Small responses: too little by bytes, but the right share with the cost of each request."""
    spec = "</a>.server_resource > 50%"
    cells = cell("/a", 500, 500, size=100), cell("default", 275, 500, size=1000)
    assert judge(spec, *cells)[spec].outcome == VIOLATED
    assert judge(spec, *cells, limits=AnalysisLimits(request_cost=1000))[spec].outcome == HELD


def test_different_response_sizes_leave_the_division_untested() -> None:
    spec = "</a>.server_resource = equal\n</b>.server_resource = equal"
    cells = cell("/a", 900, 300, size=500), cell("/b", 550, 300, size=1000)
    assert {v.outcome for v in judge(spec, *cells).values()} == {NOT_TESTED}
    told = judge(spec, *cells, limits=AnalysisLimits(request_cost=250))
    assert told["</a>.server_resource = equal"].outcome == HELD
    assert (
        judge(spec, *cells, limits=AnalysisLimits(request_cost=1))["</a>.server_resource = equal"].outcome == VIOLATED
    )


def test_a_hard_bound_needs_the_capacity_or_contention() -> None:
    spec = "</a>.server_resource < 10% hard"
    cells = (cell("/a", 300, 5),)
    assert "the capacity is not in the log" in judge(spec, *cells, busy_s=0.0)[spec].reason
    assert judge(spec, *cells, busy_s=0.0, capacity=100_000)[spec].outcome == VIOLATED
    assert judge(spec, *cells, busy_s=0.0, nodes=4, capacity=100_000)[spec].outcome == NOT_TESTED


def test_a_class_at_its_own_rate_bound_is_not_held_back_by_others() -> None:
    spec = "</a>.num_requests < 10\n</b>.server_resource > 30%"
    found = judge(spec, cell("/a", 100, 900), cell("/b", 50), cell("default", 200))
    assert VIOLATED not in {v.outcome for v in found.values()}


def test_a_429_is_not_a_denial_for_lack_of_capacity() -> None:
    spec = "</a>.available = always"
    refused = cell("/a", 100)._replace(refused=20)
    assert judge(spec, refused)[spec].outcome == HELD


def test_unknown_classes_leave_shares_untested() -> None:
    """The specification is not the one that was in force, so it proves no violation."""
    spec = "</a>.server_resource > 50%\n</b>.available = always"
    found = judge(spec, cell("/a", 5, 500), cell("/b", 5, 1), cell("/z", 500))
    assert (
        found["</a>.server_resource > 50%"].reason == "the log has class '/z', which the specification does not define"
    )
    assert found["</b>.available = always"].outcome == VIOLATED


def test_small_shortfalls_add_up_over_the_run() -> None:
    spec = "</a>.server_resource > 50%"
    one = judge(spec, cell("/a", 485, 200), cell("default", 515, 200))[spec]
    assert one.outcome == HELD
    (run,) = judge_run([one] * 6, AnalysisLimits())
    assert (run.outcome, run.reason) == (VIOLATED, "over all windows 48.50% of 50.00%; 6 of 6 windows tested")
    assert outcome_of([run]) == VIOLATED
    most = judge(spec, cell("/a", 482, 200), cell("default", 518, 200))[spec]
    windows = [one, most, one, one, one, one]
    (run,) = judge_run(windows, AnalysisLimits())
    assert verdicts_needing_evidence([run], windows) == [most], "no window is violated by itself"
    assert run.evidence == most.evidence == EvidenceQuery("held back", ("/a",))


def test_requests_refused_with_429_count_as_demand_for_rates() -> None:
    """429 enforces an upper bound on clients: the bound was tested."""
    spec = "</a>.num_requests < 10"
    refused = cell("/a", 95)._replace(refused=300)
    assert (judge(spec, refused)[spec].outcome, judge(spec, refused)[spec].demand) == (HELD, 39.5)
    assert judge(spec, cell("/a", 95))[spec].reason == "the demand was below the bound"
    only = cell("/a", 0)._replace(refused=3)
    assert judge(spec, only)[spec].reason == "0.00, at most 10.00 requests/s"


def test_in_minority_serve() -> None:
    spec = "</a>.in_minority = serve\n</b>.in_minority = deny"
    rule = "</a>.in_minority = serve"
    found = judge(spec, cell("/a", 5, 15, scope="n0"), cell("/b", 0, 9, scope="n0"))
    assert (found[rule].outcome, found[rule].reason) == (HELD, "5 of 20 requests were served outside the primary view")
    assert found["</b>.in_minority = deny"].outcome == HELD
    none = judge(spec, cell("/a", 0, 15, scope="n0"))[rule]
    assert none.outcome == NOT_TESTED
    assert none.reason.endswith(" view; the log does not show whether there was capacity for them")
    assert judge(spec, cell("/b", 0, 9, scope="n0"))[rule].reason == "no requests"


def test_rules_that_depend_on_the_load_leave_shares_untested() -> None:
    spec = "load > 80% => </a>.server_resource < 10%\n</b>.server_resource > 50%\n</c>.available = always"
    found = judge(spec, cell("/a", 500, 100), cell("/b", 100, 400), cell("/c", 9, 1))
    assert [(v.rule, v.outcome) for v in found.values()] == [("</c>.available = always", VIOLATED)]


def test_rules_that_bind_at_every_load_are_judged() -> None:
    spec = "load > 80% => </a>.server_resource < 10%\n</b>.num_requests < 10\nset lifetime = 500ms"
    found = judge(spec, cell("/a", 500, 100), cell("/b", 150, 50, wait_ms=900.0))
    assert {v.kind: v.outcome for v in found.values()} == {"rate at most": VIOLATED, "lifetime": VIOLATED}
    unsure = judge(spec + "\nload > 80% => </b>.lifetime = 2s", cell("/b", 90, 50, wait_ms=900.0))
    assert {v.kind: v.outcome for v in unsure.values()} == {"rate at most": HELD}


def test_clients_that_gave_up_are_demand_but_not_denied() -> None:
    spec = "</a>.server_resource > 50%\n</c>.available = always"
    gone = cell("/a", 300)._replace(gave_up=300, busy_held_back=300)
    found = judge(spec, gone, cell("default", 700, 100), cell("/c", 10)._replace(gave_up=5, busy_held_back=5))
    assert found["</a>.server_resource > 50%"].outcome == VIOLATED
    assert found["</c>.available = always"].outcome == HELD


def test_rules_with_a_time_begin_and_end() -> None:
    policy = policy_of("time in 00:00:05..00:00:20 => </a>.server_resource > 50%")
    found = situations(policy, Timeline([], ["n"]), {}, 0, 29, 1)
    assert [(span.first, span.last) for span in found.spans] == [(0, 4), (5, 19), (20, 29)]
    assert [len(found.bindings[span.situation].in_force) for span in found.spans] == [0, 1, 0]


def test_without_accesses_independent_rules_are_judged() -> None:
    spec = (
        "accessed(</p>) within 5s => </a>.server_resource > 50%\n"
        "</a>.server_resource > 20%\n"
        "</b>.server_resource > 10%\n"
        "</c>.available = always\n"
        "</d>.num_requests < 10\n"
        "set lifetime = 500ms\n"
    )
    policy, timeline = policy_of(spec), Timeline([], ["n1"])
    when = {"p": situations(policy, timeline, None, 0, 9, 1)}
    cells = cell("/a", 9, 90), cell("/b", 9, 90), cell("/c", 10, 1), cell("/d", 150, wait_ms=700.0)
    part = Part(PartKey(0, "p", "", 0), 10.0, 10.0, cells)
    of_run = list(judge_run(WindowJudge({"p": policy}, when, timeline, AnalysisLimits()).judge(part), AnalysisLimits()))
    assert {v.kind: v.outcome for v in of_run} == dict.fromkeys(("always", "rate at most", "lifetime"), VIOLATED)
    assert {v.line: v.reason for v in untested_rules({"p": policy}, when, of_run)} == {
        1: PAGES, 2: OTHERS_PAGES, 3: OTHERS_PAGES,
    }  # fmt: skip
    waits = policy_of("accessed(</p>) within 5s => </a>.lifetime = 2s\nset lifetime = 500ms\n")
    assert situations(waits, timeline, None, 0, 9, 1).waits_unsure
    assert not situations(waits, timeline, {}, 0, 9, 1).waits_unsure


def test_of_many_response_times_the_shortest_are_judged() -> None:
    spec = "".join(f"<{name}>.response_time < {10 + at}ms\n" for at, name in enumerate(NAMES))
    policy, timeline = policy_of(spec), Timeline([], ["n1"])
    limits_ms = response_limits({"p": policy})
    assert limits_ms == tuple(range(10, 10 + RESPONSES_MAX))
    when = {"p": situations(policy, timeline, {}, 0, 9, 1)}
    cells = tuple(cell(name, 100)._replace(slow=(2,) * RESPONSES_MAX) for name in NAMES)
    part = Part(PartKey(0, "p", "", 0), 10.0, 0.0, cells)
    found = [v for v in WindowJudge({"p": policy}, when, timeline, AnalysisLimits(), limits_ms).judge(part) if v.line]
    assert [v.outcome for v in found] == [VIOLATED] * RESPONSES_MAX + [NOT_TESTED]
    assert found[-1].reason == "only the 8 shortest response times are judged"


def test_a_slot_with_a_first_access_is_in_no_situation() -> None:
    policy = policy_of("accessed(</p>) within 5s => </q>.available = always")
    (pages,) = policy.watched_sets()
    found = situations(policy, Timeline([], ["n"]), {pages: AccessTimes([(2.5, 2.5), (11.0, 11.25)])}, 0, 19, 1)
    held = [
        (span.first, span.last, span.situation == MIXED or len(found.bindings[span.situation].always))
        for span in found.spans
    ]
    assert held == [
        (0, 1, 0), (2, 2, True), (3, 6, 1), (7, 7, True), (8, 10, 0), (11, 15, 1), (16, 16, True), (17, 19, 0),
    ]  # fmt: skip
    assert [span.situation == MIXED for span in found.spans] == [False, True, False, True, False, False, True, False]


def test_the_number_of_nodes_is_that_of_the_primary_view() -> None:
    events = [
        LogEvent("view", 10.0, "a", 1, "1:x", ("a", "b", "c"), primary=True),
        LogEvent("view", 20.0, "a", 2, "2:x", ("a", "b"), primary=True),
        LogEvent("view", 20.0, "c", None, "3:x", ("c",), primary=False),
        LogEvent("capacity", 5.0, "a", 1, capacity_bps=100),
        LogEvent("capacity", 5.0, "b", 1, capacity_bps=10),
    ]
    timeline = Timeline(events, ["a", "b", "c"])
    assert timeline.nodes(12.0, 15.0) == (3, 3)
    assert timeline.nodes(15.0, 25.0) == (2, 3)
    assert timeline.capacity(12.0, 15.0) is None, "nobody knows that of c"
    assert timeline.capacity(21.0, 25.0) == (110, 110)
    assert timeline.capacity(21.0, 25.0, "b") == (10, 10)


def test_untested_rules_are_listed_with_the_reason() -> None:
    spec = (
        "shadow </a>.server_resource < 20%\n"
        "</a>.channel = 16KB in 50ms\n"
        "load > 80% => </b>.server_resource > 30%\n"
        "</c>.server_resource > 10%\n"
        "</d>.available = always\n"
        "nodes > 5 => </e>.available = always\n"
        "</c>.cost = requests\n"
    )
    policy, timeline = policy_of(spec), Timeline([], ["n1"])
    when = {"p": situations(policy, timeline, {}, 0, 9, 1)}
    part = Part(PartKey(0, "p", "", 0), 10.0, 10.0, (cell("/d", 10), cell("/c", 10, 5)))
    of_run = list(judge_run(WindowJudge({"p": policy}, when, timeline, AnalysisLimits()).judge(part), AnalysisLimits()))
    found = list(untested_rules({"p": policy}, when, of_run))
    assert {v.line: v.reason for v in found} == {1: SHADOW, 2: CHANNEL, 3: LOAD, 4: OTHERS_LOAD, 6: NEVER, 7: COST}
    assert {v.outcome for v in found} == {NOT_TESTED}
