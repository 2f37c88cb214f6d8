"""The format of compiled policies: golden bytes of a model, which travels between nodes and lies in snapshots."""

from __future__ import annotations

from pathlib import Path

from qosweb.webqos.model import conditions as c
from qosweb.webqos.model import model as m
from qosweb.webqos.patterns import PagePattern
from tests.support.golden import Case, assert_all_types_occur, check

DATA = Path(__file__).parent / "data"
ATOMS: tuple[c.Condition, ...] = (
    c.Within("size", "", ((0, 1_000), (70_000, c.UNBOUNDED))),
    c.OneOf("header", "x-kind", ("a", "b")),
    c.Like("host", "", "*.example"),
    c.Has("cookie", "id"),
    c.ClientIn(("10.0.0.0/8",)),
    c.Linked(1),
)
PAGE_SETS = (
    m.PageSet("/shop", "pages", (PagePattern(None, ("shop",)), PagePattern("shop.example", ("**", "*.gif")))),
    m.PageSet("default", "default"),
    m.PageSet("all", "all"),
    m.PageSet("links(/shop)", "links", of=0),
)
VALUES: tuple[m.Value, ...] = (
    m.Share(500_000),
    m.Requests(2_000_000, per_node=True),
    m.Bytes(70_000),
    m.Duration(250),
    m.ChannelSize(4_096, 100),
    m.Word("always"),
    m.Relative(1, 3, 2),
)
CONDITION = c.And((c.Or((c.Atom(0), c.Not(c.Atom(1)))), c.Within("nodes", "", ((2, 9),))))
FULL = m.Model(
    m.SpecSettings("shop.example", 500, 4_096, 100, "Europe/Vienna", ((0, 3_600), (1_700_000_000, 7_200)), "forward"),
    PAGE_SETS,
    ATOMS,
    (
        *(m.Constraint(0, "rate", "<", value, f"constraint {at}") for at, value in enumerate(VALUES)),
        m.Constraint(0, "rate", ">", VALUES[0], "conditional", CONDITION, hard=True, shadow=True),
    ),
    (m.Priority((0, 1), "first", CONDITION, shadow=True), m.Priority((1, 2), "second")),
    (m.QosClass("a", (0, 2), (m.AtomCombination((0,), (1, 2)), m.AtomCombination())), m.QosClass("default", ())),
)
COST = m.Model(
    m.SpecSettings(), PAGE_SETS, (), (m.Constraint(0, "cost", "=", m.HeaderNumber("x-cost"), "cost"),), (),
    (m.QosClass("default", ()),),
)  # fmt: skip
EMPTY = m.Model(m.SpecSettings(), (), (), (), (), (m.QosClass("default", ()),))


MODELS = {"model.full": FULL, "model.empty": EMPTY, "model.cost": COST}


def test_models(write_golden: bool) -> None:
    cases = {name: Case(one, m.encode, m.decode) for name, one in MODELS.items()}
    digest = m.digest(FULL)
    cases["digest.full"] = Case(digest, str.encode, bytes.decode)
    check(DATA / "models.txt", cases, write=write_golden)


def test_every_type_has_a_golden_value() -> None:
    assert_all_types_occur([m.Model], MODELS.values())
