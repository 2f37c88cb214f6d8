"""Changes of the block list: through the interim service of the cluster, or at this node alone if it has no cluster.

An operation is in force at all nodes of the component when `block` or `unblock` returns or shortly after, also in a
minority. With ``--data-dir`` the list is on the disk: the group's if there is a cluster, else a file.
Above: the admin port.  Below: `cluster.InterimService`, `qosweb.blocklist`.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import time
from math import inf
from typing import TYPE_CHECKING

from cluster import Full, InDoubt, InterimService, NotDelivered, ProcessId
from qosweb.blocklist.block_list import BlockList
from qosweb.blocklist.operations import BlockOperation, UnblockOperation, encode_operation, parse_target, shown_path
from qosweb.server.process.console import log_message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from qosweb.blocklist.operations import AnyOperation, Network
    from qosweb.server.cluster.block_file import BlockFile

WITHIN_S = 5.0  # how long an operation may take


class CannotBlock(Exception):
    """The list was not changed; the text says why."""


class Undecided(Exception):
    """The operation is not in force here yet, and may still take effect."""


class BlockService:
    """The block list of a node and its changes."""

    def __init__(
        self, name: str, *, is_member: bool, protected: Callable[[], dict[str, str]], file: BlockFile | None = None
    ) -> None:
        """``protected``: addresses that are not blocked without force, and what each of them is.

        ``file``: of the list of a node without a cluster. Raises OSError, msgspec.DecodeError.
        """
        self.blocks = BlockList(time.monotonic, asyncio.get_running_loop().call_soon)
        self.interim = InterimService(self.blocks) if is_member else None
        self._name = name
        self._protected = protected
        self._file = file
        self._storing = asyncio.Lock()
        if file is not None:
            self.blocks.restore(*file.read())
        if self.interim is not None:
            self.interim.on_refresh(self._refreshed)

    @property
    def members(self) -> list[str]:
        """The nodes with which this one shares the list at the moment."""
        return [self._name] if self.interim is None else [member.name for member in self.interim.members]

    @property
    def is_merging(self) -> bool:
        return self.blocks.is_arriving or (self.interim is not None and self.interim.is_merging)

    async def block(
        self, network: Network, path: str, for_s: float | None, reason: str, by: str, *, force: bool
    ) -> BlockOperation:
        """Block a network. Raises CannotBlock or Undecided."""
        if not force:
            self._refuse_protected(network)
        for_s = inf if for_s is None else for_s
        block = BlockOperation(os.urandom(8).hex(), str(network), path, for_s, reason, by, self._name, time.time())
        await self._request(block)
        log_message(f"{_target(network, path)} is blocked by {by or 'an operator'}: {reason or 'no reason given'}")
        return block

    async def unblock(self, network: Network, path: str, by: str) -> int:
        """Remove all blocks of this network and path. Returns how many there were."""
        count = await self._request(UnblockOperation(str(network), path, by, self._name))
        if count:
            log_message(f"{_target(network, path)} is unblocked by {by or 'an operator'}")
        return count

    def _refuse_protected(self, network: Network) -> None:
        loopback = {"127.0.0.0/8": "the loopback network", "::1": "the loopback address"}
        for text, what in {**self._protected(), **loopback}.items():
            if _overlap(network, text):
                raise CannotBlock(f"{network} overlaps {text}, {what}; --force blocks it nevertheless")

    async def _request(self, operation: AnyOperation) -> int:
        body = encode_operation(operation)
        if self.interim is None:
            count = _count(self.blocks.apply(ProcessId(self._name), body, 0.0))
            await self._store()
            return count
        try:
            async with asyncio.timeout(WITHIN_S):
                return _count(await self.interim.request(body))
        except (Full, NotDelivered) as error:
            raise CannotBlock(str(error)) from None
        except InDoubt as error:
            raise Undecided(f"this node stopped: {error}") from None
        except TimeoutError:
            raise Undecided(self._why_it_takes_long()) from None

    async def _store(self) -> None:
        """Write the list of a node without a cluster. What cannot be stored is in force nevertheless."""
        if self._file is None:
            return
        async with self._storing:
            try:
                await asyncio.to_thread(self._file.write, self.blocks.snapshot())
            except OSError as error:
                reason = error.strerror or error
                log_message(f"the block list cannot be stored, so a restart would lose the last change: {reason}")

    def _why_it_takes_long(self) -> str:
        assert self.interim is not None
        hindered = ", ".join(member.name for member in self.interim.hindered_by)
        if hindered:
            return f"it waits for nodes of a version without a block list: {hindered}"
        return "the lists of several nodes are being merged" if self.is_merging else "the nodes do not respond"

    def _refreshed(self, members: Iterable[ProcessId]) -> None:
        if self.blocks:
            names = " ".join(member.name for member in members)
            log_message(f"the block list has {len(self.blocks):,} entries, the same at {names}")


def _count(result: object) -> int:
    if not isinstance(result, int):
        raise CannotBlock(str(result))
    return result


def _target(network: Network, path: str) -> str:
    return f"{network} {shown_path(path)}".rstrip()


def _overlap(network: Network, text: str) -> bool:
    try:
        other = parse_target(text)
    except ValueError:
        return False
    if isinstance(network, ipaddress.IPv4Network) and isinstance(other, ipaddress.IPv4Network):
        return network.overlaps(other)
    if isinstance(network, ipaddress.IPv6Network) and isinstance(other, ipaddress.IPv6Network):
        return network.overlaps(other)
    return False
