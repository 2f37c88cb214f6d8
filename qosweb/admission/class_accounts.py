"""Class accounts: counters of each QoS class, and the response header fields that name the class.

Counters are plain numbers, because every request adds to them. A class that keeps its name in a new policy keeps its
account.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qosweb.admission.classifier import Classifier
    from qosweb.admission.facts import HeadFacts, RequestFacts

SERVICE_BUCKETS_S = (
    0.000_02, 0.000_05, 0.000_1, 0.000_2, 0.000_5, 0.001, 0.002, 0.005,
    0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0,
)  # fmt: skip


@dataclass(slots=True)
class ClassAccount:
    """Counters and header fields of one class."""

    name: str
    decisions: Counter[str] = field(default_factory=Counter)
    number: int = 0  # of the class in the policy in force
    relayed_served: int = 0  # requests that took the fast path to an upstream server; they are not in `decisions`
    relayed_bytes: int = 0  # of their responses; part of `bytes_sent`
    plain_served: int = 0  # requests that took the fast path; they are not in `decisions`
    bytes_sent: int = 0
    other_bytes: int = 0  # the part of `bytes_sent` that took neither fast path
    reasons: Counter[str] = field(default_factory=Counter)  # of denials
    wait_sum_s: float = 0.0  # of requests that were queued
    wait_counts: list[int] = field(default_factory=lambda: [0] * (len(SERVICE_BUCKETS_S) + 1))
    service_counts: list[int] = field(default_factory=lambda: [0] * (len(SERVICE_BUCKETS_S) + 1))
    service_sum_s: float = 0.0
    in_service: int = 0  # without the fast path
    streams: int = 0  # long streams, which are not in `in_service`
    header_line: bytes = b""  # of responses to requests of the class
    served_line: bytes = b""  # of responses to requests that were served
    failed_line: bytes = b""  # of responses to requests that failed although no rule denied them
    quoted: str = ""  # the name as in a JSON line of the access log

    def __post_init__(self) -> None:
        self.quoted = json.dumps(self.name)

    @property
    def plain_bytes(self) -> int:
        """Of requests that took the fast path to memory."""
        return self.bytes_sent - self.relayed_bytes - self.other_bytes

    @property
    def field_text(self) -> str:
        """The name, escaped for a header field."""
        escaped = (c if " " <= c <= "~" else "".join(f"%{byte:02X}" for byte in c.encode()) for c in self.name)
        return "".join(escaped)

    @property
    def served(self) -> int:
        return self.plain_served + self.relayed_served + self.decisions.get("served", 0)

    def by_decision(self) -> dict[str, int]:
        counts = {"served": 0, "denied": 0, "failed": 0, **self.decisions}
        counts["served"] = self.served
        return counts

    @property
    def waits(self) -> list[int]:
        """Requests by their wait, as `SERVICE_BUCKETS_S`. Those on the fast path did not wait."""
        at_once, *waited = self.wait_counts
        return [at_once + self.plain_served + self.relayed_served, *waited]

    def observe_service(self, service_s: float) -> None:
        self.service_counts[bisect_left(SERVICE_BUCKETS_S, service_s)] += 1
        self.service_sum_s += service_s

    def observe_wait(self, wait_s: float) -> None:
        self.wait_counts[bisect_left(SERVICE_BUCKETS_S, wait_s)] += 1
        self.wait_sum_s += wait_s


class ClassAccounts:
    """One account per class. `classifier` and `accounts` change together, in one step of the event loop."""

    def __init__(self, classifier: Classifier) -> None:
        self.classifier = classifier
        self.accounts: list[ClassAccount] = []  # by class number
        self._by_name: dict[str, ClassAccount] = {}
        self._has_policy = False
        self._is_local = False
        self.change(classifier)

    def change(self, classifier: Classifier) -> None:
        """Switch to the classes of a new policy."""
        self.classifier = classifier
        self._has_policy = classifier.model is not None
        self.accounts = [self._account(name) for name in classifier.names]
        for number, account in enumerate(self.accounts):
            account.number = number

    def change_scope(self, *, is_local: bool) -> None:
        """Set whether this node decides without its cluster; responses then have `QoS-Scope: local`."""
        if is_local != self._is_local:
            self._is_local = is_local
            for account in self._by_name.values():
                self._account(account.name)

    @property
    def default(self) -> ClassAccount:
        return self.accounts[self.classifier.default]

    @property
    def all_accounts(self) -> list[ClassAccount]:
        """All accounts, also those of classes of earlier policies."""
        return list(self._by_name.values())

    def of_page(self, host: str, path: str) -> ClassAccount | None:
        """See `Classifier.class_of_page`."""
        number = self.classifier.class_of_page(host, path)
        return None if number is None else self.accounts[number]

    def of_head(self, facts: HeadFacts) -> ClassAccount | None:
        """See `Classifier.class_of_head`."""
        number = self.classifier.class_of_head(facts)
        return None if number is None else self.accounts[number]

    def of(self, facts: RequestFacts, now: float) -> ClassAccount:
        return self.accounts[self.classifier.class_of(facts, now)]

    def _account(self, name: str) -> ClassAccount:
        account = self._by_name.setdefault(name, ClassAccount(name))
        line = f"QoS-Class: {account.field_text}\r\n".encode() if self._has_policy else b""
        if line and self._is_local:
            line += b"QoS-Scope: local\r\n"
        if account.header_line != line:
            account.header_line = line
            account.served_line = line + b"QoS-Decision: served\r\n" if line else b""
            account.failed_line = line + b"QoS-Decision: failed\r\n" if line else b""
        return account
