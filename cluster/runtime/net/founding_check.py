"""Asking, before a founding, whether the cluster was founded already.

Each address that the founder was given is called once, with the handshake of the group and a note that one only asks.
Who answers as a member makes the founding fail. Who does not answer, or only waits to join, does not: the members of a
new cluster may be started in any order. So this finds a mistake, and cannot find every one; what keeps members of two
foundings apart for ever is that each process bears the number of its founding (`handshake.py`), on disk if it has one.
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

MESSAGES_MAX = 4  # of the other side; a handshake has two

log = logging.getLogger("cluster.group")


class AlreadyFounded(Exception):
    """This cluster has a member: it is not founded again."""


async def refuse_if_founded(options: Options, me: ProcessId) -> None:
    """Raises AlreadyFounded if a member of this cluster answers at one of the contacts."""
    answers = await asyncio.gather(*(_ask(options, me, contact) for contact in options.contacts))
    for contact, answer in zip(options.contacts, answers, strict=True):
        if answer:
            raise AlreadyFounded(
                f"the cluster '{options.cluster}' exists, and is not founded again: at {contact}, {answer}"
            )


async def _ask(options: Options, me: ProcessId, contact: str) -> str:
    """Why not to found; empty if nobody says so there."""
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
        log.info("%s knows of no founding: %s", contact, failed)
    except (OSError, TimeoutError, ssl.SSLError, asyncio.IncompleteReadError) as error:
        log.info("nobody at %s to ask whether the cluster was founded: %s", contact, error or type(error).__name__)
    finally:
        if writer is not None:
            writer.transport.abort()
    return ""


async def _shake_hands(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, options: Options, me: ProcessId
) -> None:
    """Ends with Failed: nobody takes one who only asks."""
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
