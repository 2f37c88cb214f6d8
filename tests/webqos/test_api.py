"""The public API of ``qosweb.webqos``: compile, explain, compute shares, without importing what is not needed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import qosweb.webqos
from qosweb.webqos import DescribedRequest, Environment, compile_policy, explain, shares

SITE = """\
set site = www.shop.example
</index.html>.available = always
</free>.server_resource < 20%
cookie("member") => </paid>.response_time < 200ms as members
</paid>.server_resource > 50%
load > 80% => </free>.server_resource < 10%
</paid> before </free>
shadow </free>.num_requests < 5
"""


def test_the_documented_names_are_exported() -> None:
    assert {"compile_policy", "explain", "shares"} <= set(qosweb.webqos.__all__)
    for name in qosweb.webqos.__all__:
        assert getattr(qosweb.webqos, name).__doc__


def test_a_correct_text_has_a_model_and_no_diagnostics() -> None:
    policy = compile_policy(SITE)
    assert policy.diagnostics == []
    assert policy.require_model() is policy.model
    assert policy.render_diagnostics() == ""


def test_mistakes_are_diagnostics_and_not_exceptions() -> None:
    policy = compile_policy("</a>.sped < 3\n", "site.webqos")
    assert policy.has_errors
    assert policy.model is None
    assert policy.render_diagnostics().startswith("site.webqos:1:6: error: unknown attribute 'sped'\n")
    with pytest.raises(ValueError, match="unknown attribute"):
        shares(policy)
    with pytest.raises(ValueError, match="unknown attribute"):
        explain(policy, DescribedRequest("/a"))


def test_contradictions_are_searched_unless_told_otherwise() -> None:
    text = "</a>.server_resource > 60%\n</b>.server_resource > 60%\n"
    assert compile_policy(text).model is None
    unchecked = compile_policy(text, check=False)
    assert unchecked.model is not None
    assert unchecked.diagnostics == []


def test_explain_finds_class_rules_and_terms() -> None:
    policy = compile_policy(SITE)
    found = explain(policy, DescribedRequest("/paid/x", cookies={"member": "1"}))
    assert (found.host, found.class_name, found.page_sets) == ("www.shop.example", "members", ("/paid",))
    assert [(one.text, one.holds) for one in found.conditions] == [('cookie("member")', True)]
    assert [(rule.line, rule.state) for rule in found.rules] == [(4, "in force"), (5, "in force"), (7, "in force")]
    assert found.terms.response_ms == 200
    assert found.goes_before == ("/free",)
    assert explain(policy, DescribedRequest("/paid/x")).conditions[0].holds is False


def test_explain_depends_on_the_environment() -> None:
    policy = compile_policy(SITE)
    request = DescribedRequest("/free/x")
    calm = {rule.line: rule.state for rule in explain(policy, request).rules}
    busy = {rule.line: rule.state for rule in explain(policy, request, Environment(load_ppm=900_000)).rules}
    assert calm == {3: "in force", 6: "not now", 7: "in force", 8: "shadow"}
    assert busy == {3: "overridden", 6: "in force", 7: "in force", 8: "shadow"}


def test_shares_under_contention_and_under_a_demand() -> None:
    policy = compile_policy("</a>.server_resource > 60%\n</b>.server_resource < 10%\n")
    contended = {one.name: one for one in shares(policy)}
    assert contended["/a"].floor_ppm == 600_000
    assert contended["/b"].share_ppm == contended["/b"].ceiling_ppm == 100_000
    assert sum(one.share_ppm for one in contended.values()) == 1_000_000
    light = {one.name: one.share_ppm for one in shares(policy, demand_ppm={"/a": 50_000})}
    assert light == {"/a": 50_000, "/b": 0, "default": 0}
    with pytest.raises(ValueError, match="no class '/c'"):
        shares(policy, demand_ppm={"/c": 1})


def test_importing_the_package_loads_neither_parser_nor_solver() -> None:
    program = (
        "import sys, qosweb.webqos; "
        "print([name for name in ('pyparsing', 'scipy', 'numpy', 'msgspec') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_documented_example_works() -> None:
    readme = (Path(__file__).parents[2] / "docs" / "reference" / "specifications.md").read_text("utf-8")
    (program,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "/paid\n/paid 500000\ndefault 500000\n"
