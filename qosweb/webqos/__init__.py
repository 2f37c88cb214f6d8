"""WebQoS: the policy language that divides a site's capacity between its pages. This module is its public API.

    policy = compile_policy("</paid>.server_resource > 50%")
    explain(policy, DescribedRequest("/paid/report")).class_name
    [(one.name, one.share_ppm) for one in shares(policy)]

All three functions are pure. ``loader`` reads specifications from files; the commands are in ``qosweb.tools``.

Paper: the QoS web server, section 2 (an informal sketch; its examples parse here unchanged).
Packages: ``syntax`` parses and prints text, ``model`` is a compiled specification, ``match`` finds the class of a
request, ``check`` finds mistakes, ``policy`` binds a model to a situation, ``allocation`` divides the capacity.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from qosweb.webqos.api_types import ClassShare, DescribedRequest, ExplainedCondition, ExplainedRule, Explanation
from qosweb.webqos.policy.environment import Environment
from qosweb.webqos.specification import Specification
from qosweb.webqos.syntax.diagnostics import Diagnostic, has_errors
from qosweb.webqos.syntax.positions import Source

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "ClassShare",
    "DescribedRequest",
    "Diagnostic",
    "Environment",
    "ExplainedCondition",
    "ExplainedRule",
    "Explanation",
    "Specification",
    "compile_policy",
    "explain",
    "shares",
]

# Every import of a submodule runs this file. The parser and the solver are slow to import: functions import them.


def compile_policy(text: str, name: str = "policy", *, check: bool = True, bind_shadows: bool = False) -> Specification:
    """Compile the text of a specification. Mistakes do not raise: see ``Specification.diagnostics``.

    ``name`` stands for the file name in diagnostics. ``check=False`` skips the search for contradictions and
    warnings, for texts that were checked before. ``bind_shadows`` treats ``shadow`` statements as binding.
    """
    from qosweb.webqos.model.build import build

    policy = build(Source(name, text), bind_shadows=bind_shadows)
    if not check:
        return policy
    from qosweb.webqos.check.check import check_specification

    found = check_specification(policy)
    return replace(policy, model=None if has_errors(found) else policy.model, diagnostics=found)


def explain(policy: Specification, request: DescribedRequest, environment: Environment | None = None) -> Explanation:
    """Say which class a request is in, which constraints apply to it, and its share under contention.

    Raises ValueError if ``policy`` has errors.
    """
    from qosweb.webqos.request_explanation import explain_request

    return explain_request(policy, request, environment or Environment())


def shares(
    policy: Specification, environment: Environment | None = None, demand_ppm: Mapping[str, int] | None = None
) -> list[ClassShare]:
    """Compute the share of each class, in the order of ``policy.model.classes``.

    ``demand_ppm`` is the demand by class name, in parts per million of the capacity; other classes have none. By
    default every class demands everything, except that classes which are always available demand nothing.
    Raises ValueError if ``policy`` has errors, or for an unknown class.
    """
    from qosweb.webqos.class_shares import compute_shares

    return compute_shares(policy.require_model(), environment or Environment(), demand_ppm)
