"""Policy changes of a node: from the file of its specification, and from its admin port.

A change is an entry of the cluster's order, or takes effect at once at a node without a cluster.
Above: `Node`, the admin port.  Below: `AdmissionControl`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from qosweb.engine.replicated.compiled_policy import CompiledPolicy
from qosweb.errors import UsageError
from qosweb.server.cluster.membership import POLICY_LEN_MAX
from qosweb.server.process.console import log_message
from qosweb.webqos.loader import load

if TYPE_CHECKING:
    from collections.abc import Callable

    from qosweb.admission import AdmissionControl
    from qosweb.engine.replicated.effects import EntryRejected
    from qosweb.settings import ServeSettings
    from qosweb.webqos import Specification


def read_policy(settings: ServeSettings) -> CompiledPolicy | None:
    """The policy in the specification file; None if no engine is needed: no file, no capacity, no cluster."""
    if settings.spec is None:
        return CompiledPolicy.empty() if settings.is_member or settings.capacity is not None else None
    specification = load(str(settings.spec))
    return CompiledPolicy.of_model(specification.source.text, specification.require_model())


class PolicyChanges:
    """Puts policies in force and waits for them."""

    def __init__(
        self,
        settings: ServeSettings,
        admission: AdmissionControl,
        policy: CompiledPolicy | None,
        is_in_cluster: Callable[[], bool],
    ) -> None:
        """`policy`: the one that was read from the file."""
        self._settings = settings
        self._admission = admission
        self._is_in_cluster = is_in_cluster
        self._file_text = None if policy is None else policy.text  # of the file, as it was last read
        self._text_in_force = self._file_text
        self._waits: dict[str, asyncio.Future[int | None]] = {}  # by the text of the policy

    def change(self, policy: CompiledPolicy) -> None:
        """Change the policy of the whole cluster, at one position of its order. Raises UsageError if impossible."""
        self._check_may_change()
        size = len(policy.text.encode()) + len(policy.packed)
        if self._is_in_cluster() and size > POLICY_LEN_MAX:
            raise UsageError(
                f"the policy has {size:,} bytes with its model; a cluster allows at most {POLICY_LEN_MAX:,}"
            )
        self._admission.change_policy(policy)

    def _check_may_change(self) -> None:
        engine = self._admission.engine
        if self._is_in_cluster() and engine is not None and engine.solo is not None:
            raise UsageError("this node is not in a primary view of its cluster: it cannot change the policy now")

    async def put(self, specification: Specification, within_s: float) -> int | None:
        """Change the policy and wait until it is in force here. Returns its position in the cluster's order, if any.

        Raises UsageError or TimeoutError.
        """
        if self._admission.engine is None:
            raise UsageError("this node was started without a specification: start it with --spec FILE")
        policy = CompiledPolicy.of_model(specification.source.text, specification.require_model())
        return await self.change_within(policy, within_s)

    async def change_within(self, policy: CompiledPolicy, within_s: float) -> int | None:
        # two callers may set the same policy
        waiter = self._waits.setdefault(policy.text, asyncio.get_running_loop().create_future())
        try:
            self.change(policy)
            async with asyncio.timeout(within_s):
                return await asyncio.shield(waiter)
        finally:
            self._waits.pop(policy.text, None)

    # ---- the specification's file

    def read_again(self) -> Callable[[], str]:
        """Read the file again. Returns what puts its policy in force and says what became of it.

        The policy changes only if the file has changed since it was last read: otherwise this would undo a change that
        was made on an admin port. Raises UsageError, and changes nothing, if the file is invalid or the policy cannot
        change now.
        """
        policy = read_policy(self._settings)
        has_changed = policy is not None and policy.text != self._file_text
        is_new = has_changed and policy is not None and policy.text != self._admission.accounts.classifier.text
        if is_new:
            self._check_may_change()

        def use() -> str:
            spec = self._settings.spec
            if spec is None or policy is None:
                return "unchanged, as there is no --spec"
            if is_new:
                self.change(policy)
            self._file_text = policy.text
            if is_new:
                return f"changed to {spec}"
            if has_changed:
                return f"unchanged, as {spec} is in force already"
            return f"unchanged, as {spec} has not changed since it was last read"

        return use

    # ---- outcome of a change

    def in_force(self, policy: CompiledPolicy, index: int | None) -> None:
        """A policy is in force, since position `index` of the cluster's order if there is one."""
        if policy.text != self._text_in_force:
            self._text_in_force = policy.text
            log_message(f"policy {self._admission.accounts.classifier.policy_hash or '(empty)'} is in force")
        waiter = self._waits.get(policy.text)
        if waiter is not None and not waiter.done():
            waiter.set_result(index)

    def rejected(self, effect: EntryRejected) -> None:
        """All nodes reject an entry of the order, or the policy in it."""
        waiter = self._waits.get(effect.text or "")
        if effect.text is not None and waiter is not None and not waiter.done():
            waiter.set_exception(UsageError(f"all nodes reject the policy: {effect.because}"))
