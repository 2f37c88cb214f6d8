"""Checks before a founding that no member of the cluster is reachable at the contact addresses.

Each contact is dialed once, with the group's handshake marked as a probe. If a member answers, the founding fails.
Contacts that do not answer, or only wait to join, are ignored: the members of a new cluster may start in any order. So
the check finds a mistake but not every one. What keeps the members of two foundings apart is that each process carries
the id of its founding (`handshake.py`), on disk if it has one.
Above: group.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import ssl
from typing import TYPE_CHECKING

from cluster.runtime.net.addresses import parse_address
from cluster.runtime.net.handshake import (
    FOREIGN_GROUP,
    HANDSHAKE_LEN_MAX,
    NONCE_LEN,
    Handshake,
    HandshakeFailed,
    PeerIdentity,
    SeenNonces,
)
from cluster.runtime.net.wire import LENGTH

if TYPE_CHECKING:
    from cluster.names import ProcessId
    from cluster.runtime.api.options import Options

MESSAGES_MAX = 4  # messages accepted from the peer; a handshake has two

log = logging.getLogger("cluster.group")


class AlreadyFounded(Exception):
    """The cluster already has a member."""


async def refuse_if_founded(options: Options, me: ProcessId) -> None:
    """Raise AlreadyFounded if a member of this cluster answers at one of the contacts."""
    answers = await asyncio.gather(*(_ask(options, me, contact) for contact in options.contacts))
    for contact, answer in zip(options.contacts, answers, strict=True):
        if answer:
            raise AlreadyFounded(
                f"the cluster '{options.cluster}' already exists and cannot be founded again: at {contact}, {answer}"
            )


async def _ask(options: Options, me: ProcessId, contact: str) -> str:
    """Why this contact forbids the founding; empty if it does not."""
    host, port = parse_address(contact)
    tls = options.tls.client if options.tls else None
    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout(options.bounds.dial_s):
            reader, writer = await asyncio.open_connection(host, port, ssl=tls, server_hostname=host if tls else None)
            await _shake_hands(reader, writer, options, me)
    except HandshakeFailed as failed:
        if failed.kind == FOREIGN_GROUP:
            return str(failed)
        log.info("%s reports no founding: %s", contact, failed)
    except (OSError, TimeoutError, ssl.SSLError, asyncio.IncompleteReadError) as error:
        log.info("cannot ask %s whether the cluster was founded: %s", contact, error or type(error).__name__)
    finally:
        if writer is not None:
            writer.transport.abort()
    return ""


async def _shake_hands(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, options: Options, me: ProcessId
) -> None:
    """Always raises HandshakeFailed: peers refuse a probe."""
    handshake = Handshake(
        accepts=False,
        key=options.key,
        cluster=options.cluster,
        identity=PeerIdentity(me, 1, (), "", blind=True, probe=True),
        nonce=secrets.token_bytes(NONCE_LEN),
        seen=SeenNonces(),
        decide=lambda _peer: "one only asked",
    )
    answer = handshake.open()
    for _ in range(MESSAGES_MAX):
        writer.write(LENGTH.pack(len(answer)) + answer)
        size = LENGTH.unpack(await reader.readexactly(LENGTH.size))[0]
        if size > HANDSHAKE_LEN_MAX:
            return
        answer = handshake.receive(await reader.readexactly(size))
