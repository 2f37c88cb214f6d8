"""The policy in force at this node: the specification, its labels, and an account for each class."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.server.accesslog.recorder import ClassAccount

if TYPE_CHECKING:
    from aiohttp.http import RawRequestMessage

    from qosweb.admission.classifier import Classifier
    from qosweb.server.request.exchange import Exchange


class ClassAccounts:
    """``classifier`` and ``accounts`` change together, in one step of the event loop."""

    def __init__(self, labels: Classifier) -> None:
        self.labels = labels
        self.accounts: list[ClassAccount] = []
        self._by_name: dict[str, ClassAccount] = {}
        self._shown = False
        self._is_local = False
        self.change(labels)

    def change(self, labels: Classifier) -> None:
        """A class that keeps its name keeps its account."""
        self.labels = labels
        self._shown = labels.model is not None
        self.accounts = [self._account(name) for name in labels.names]
        for number, account in enumerate(self.accounts):
            account.number = number

    def change_scope(self, *, is_local: bool) -> None:
        """Whether answers say that this node decides without the others."""
        if is_local != self._is_local:
            self._is_local = is_local
            for account in self._by_name.values():
                self._account(account.name)

    @property
    def default(self) -> ClassAccount:
        return self.accounts[self.labels.default]

    @property
    def all_accounts(self) -> list[ClassAccount]:
        """Those of earlier policies, too."""
        return list(self._by_name.values())

    def account_of_head(self, message: RawRequestMessage) -> ClassAccount | None:
        number = self.labels.of_head(message)
        return None if number is None else self.accounts[number]

    def account_of(self, exchange: Exchange) -> ClassAccount:
        """Of a request that ended before it was labelled, too: by its target, if it has one."""
        if exchange.account is None:
            exchange.account = self.accounts[self.labels.of_exchange(exchange, exchange.started)]
        return exchange.account

    def _account(self, name: str) -> ClassAccount:
        account = self._by_name.setdefault(name, ClassAccount(name))
        line = f"QoS-Class: {field_text(name)}\r\n".encode() if self._shown else b""
        if line and self._is_local:
            line += b"QoS-Scope: local\r\n"
        if account.header_line != line:
            account.header_line = line
            account.served_line = line + b"QoS-Decision: served\r\n" if line else b""
        return account


def field_text(name: str) -> str:
    """A class's name as it may stand in a header field."""
    return "".join(c if " " <= c <= "~" else "".join(f"%{byte:02X}" for byte in c.encode()) for c in name)
