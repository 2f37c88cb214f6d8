"""Mutants of the multicast transport that its specification must catch (`sim --bulk --mutants`)."""

from __future__ import annotations

from cluster.sim.mutation import Mutant

MASTER, COORDINATOR = "cluster.bulk.master", "cluster.bulk.coordinator"
PRODUCER, CONSUMER = "cluster.bulk.producer", "cluster.bulk.consumer"
STATUSES, GAPS, ROUNDS = "cluster.bulk.message_statuses", "cluster.bulk.gaps", "cluster.bulk.nak_rounds"
REPAIRS = "cluster.bulk.repairs"

BULK_MUTANTS: tuple[Mutant, ...] = (
    # ---- the master
    Mutant(
        "a successor keeps pending messages", MASTER,
        "            self.coordinator = coordinator\n            for number, _ in self.pending():\n"
        "                self._decide(number, Status.REJECTED)",
        "            self.coordinator = coordinator",
        "a message of which its producer knows nothing stays pending",
        shown_by=3,
    ),
    Mutant(
        "a repeated request gets a second token", MASTER,
        "        is_new = request > self.granted.get(producer, (0, 0))[0]",
        "        is_new = request >= self.granted.get(producer, (0, 0))[0]",
        "one message gets two numbers, one of which nobody uses",
        shown_by=14,
    ),
    Mutant(
        "a decision is not announced to those that missed its first packet", MASTER,
        "        at = T_MAX - 2\n",
        "        at = T_MAX - 1\n",
        "a producer that missed one packet does not learn what became of its message",
        shown_by=0,
    ),
    Mutant(
        "the state comes from a process that has none", MASTER,
        "is_ready=giver is None)",
        "is_ready=True)",
        "a process that waits for the state itself gives it to another",
    ),
    # ---- the coordinator
    Mutant(
        "accepted before it is ordered", COORDINATOR,
        "        return Header(master.session, master.next, tuple(master.recent), self._context.flow.parameters)",
        "        recent = list(master.recent)\n"
        "        for entry in self._proposed:\n"
        "            if type(entry) is Accept and master.status(entry.number) is Status.PENDING:\n"
        "                at = master.next - 1 - entry.number\n"
        "                recent[at] = type(recent[at])(Status.ACCEPTED, recent[at].producer)\n"
        "        return Header(master.session, master.next, tuple(recent), self._context.flow.parameters)",
        "members learn of a decision that its coordinator takes to its grave",
    ),
    Mutant(
        "one member is enough to accept", MASTER,
        "        return 2 * len(voters.intersection(holders)) > len(voters)",
        "        return bool(voters.intersection(holders))",
        "an accepted message is lost with its producer",
    ),
    Mutant(
        "votes of an earlier view count", COORDINATOR,
        "        if packet.view != master.views:",
        "        if False:",
        "a member that restarted without the message is counted among those that have it",
    ),
    Mutant(
        "a failed producer is not noticed", COORDINATOR,
        "            if now >= self._heard.setdefault(number, now) + beats * beat:",
        "            if False:",
        "a message stays pending for ever and holds its token",
        shown_by=11,
    ),
    Mutant(
        "lost proposals are not repeated", COORDINATOR,
        "            del self._proposed[entry]\n        if now",
        "            pass\n        if now",
        "a proposal that the order lost is never made again",
        equivalent="a proposal is lost only with the primary view, and then the coordinator forgets all of them",
    ),
    Mutant(
        "no empty packets of the master", COORDINATOR,
        "        context.outbox.append(Multicast(EmptyPacket(self._header(), 0, 0, False)))",
        "        pass",
        "members do not learn the status of the last message",
    ),
    Mutant(
        "a joining process gets no answer to a repeated request", COORDINATOR,
        "        if joined is not None and joined.attempt == packet.attempt:\n            self._confirm(sender)",
        "        if joined is not None and joined.attempt == packet.attempt:\n            pass",
        "a process whose confirmation was lost never becomes a member",
    ),
    Mutant(
        "a producer gets no answer to a repeated request", COORDINATOR,
        "        if packet.request == request:\n            self._send_token(sender, request, number)",
        "        if packet.request == request:\n            pass",
        "a producer whose token was lost waits for ever",
        shown_by=5,
    ),
    # ---- the producer
    Mutant(
        "NAKs are ignored", PRODUCER,
        "                    self._again[key] = None",
        "                    pass",
        "lost packets are not sent again",
    ),
    Mutant(
        "the last packet is not marked", PRODUCER,
        "        is_end = message.source.is_ended and packet == message.source.available - 1",
        "        is_end = message.source.is_ended and packet == message.source.available",
        "nobody knows where a message ends",
        equivalent="the next empty packet tells the number of packets",
    ),
    Mutant(
        "the message ends one packet early", PRODUCER,
        "        is_end = message.source.is_ended and packet == message.source.available - 1",
        "        is_end = message.source.is_ended and packet >= message.source.available - 2",
        "members deliver a message without its end",
    ),
    Mutant(
        "no empty packets of a producer", PRODUCER,
        "            if (message.outcome is None and is_quiet) or is_asked:",
        "            if False:",
        "the loss of the last packets of a message is not noticed",
        shown_by=195,
    ),
    Mutant(
        "sends before the token", PRODUCER,
        "        if message is None or not message.number:",
        "        if message is None:",
        "packets without a number",
    ),
    Mutant(
        "a lost status is awaited for ever", PRODUCER,
        "                elif context.statuses.is_lost(number):",
        "                elif False:",
        "a producer that was cut off never sends again",
        shown_by=50,
    ),
    # ---- the consumer
    Mutant(
        "delivers pending messages", CONSUMER,
        "            elif status is Status.ACCEPTED and message is not None and message.gaps.is_complete:",
        "            elif message is not None and message.gaps.is_complete:",
        "a member delivers what the master rejects",
    ),
    Mutant(
        "delivers incomplete messages", CONSUMER,
        "            elif status is Status.ACCEPTED and message is not None and message.gaps.is_complete:",
        "            elif status is Status.ACCEPTED and message is not None:",
        "a member delivers a message with holes",
    ),
    Mutant(
        "skips what it does not have", CONSUMER,
        "            elif statuses.is_lost(number):\n"
        '                self.join_again(f"the status of message {number} was missed")\n'
        "                return\n",
        "            elif statuses.is_lost(number):\n                self._drop(number)\n",
        "a member that missed a status passes over the message",
        shown_by=47,
    ),
    Mutant(
        "no NAK without a gap", CONSUMER,
        "            ranges = (*ranges, (message.gaps.seen, message.gaps.seen + OPEN_END))",
        "            pass",
        "a member that saw nothing of an accepted message never asks for it",
    ),
    Mutant(
        "a NAK is sent once", ROUNDS,
        "            rounds.append((self.asked_to, again_at))",
        "            rounds.append((self.asked_to, inf))",
        "a member whose NAK was lost waits for ever",
    ),
    Mutant(
        "only the producer is asked", CONSUMER,
        "        return able[message.unanswered % len(able)]",
        "        return message.producer",
        "an accepted message cannot be had once its producer has crashed",
        equivalent="the member gives up after some NAKs and joins again, as in the paper",
    ),
    Mutant(
        "the state before the wrong message", CONSUMER,
        "        if confirm.giver is not None and self._state_first != confirm.first:",
        "        if confirm.giver is not None and not self._state_first:",
        "a process that joins again goes on with an old state",
        shown_by=14,
    ),
    Mutant(
        "a removed process stays", CONSUMER,
        "        if context.me not in members:",
        "        if False:",
        "a process delivers messages of a web that it is not in",
        shown_by=14,
    ),
    Mutant(
        "forgets what it reported when it joins again", CONSUMER,
        "            if message.gaps.is_complete:\n                self.kept[number]",
        "            if message.gaps.is_complete:\n                context = self._context\n"
        "                context.outbox.append(Discard(number))\n                self.kept[number]",
        "a message that was accepted because of this member is lost",
        shown_by=13,
    ),
    Mutant(
        "keeps no delivered messages", CONSUMER,
        "        for old in [old for old in self.kept if old <= number - KEPT]:",
        "        for old in [old for old in self.kept if old <= number]:",
        "nobody can repair others once the producer is gone",
    ),
    Mutant(
        "waits behind an incomplete message for ever", CONSUMER,
        "            elif statuses.next - number > BEHIND_MAX:",
        "            elif False:",
        "the messages behind an incomplete one fill the memory",
        shown_by=50,
    ),
    Mutant(
        "asks twice at most", ROUNDS,
        "(end, due)] if rest else [(end, again_at)]",
        "(end, due)] if rest else []",
        "a packet that was lost again is not asked for again",
    ),
    Mutant(
        "a repair ends one packet early", REPAIRS,
        "                is_end = packet == packets - 1",
        "                is_end = packet >= packets - 2",
        "members deliver a message without its end",
        shown_by=46,
    ),
    # ---- flow control
    Mutant(
        "all members have it at once", PRODUCER,
        "        is_behind = any(member not in message.delivered for member in self._receivers(message))",
        "        is_behind = False",
        "a slow consumer does not slow a sender that waits for it",
    ),
    Mutant(
        "all members have its packets", PRODUCER,
        "        is_behind = any(member not in message.delivered for member in self._receivers(message))",
        "        is_behind = any(member not in message.complete for member in self._receivers(message))",
        "a sender is told that all have its message, and one of them joins again without it",
    ),
    # ---- what a member knows
    Mutant(
        "a later header is believed", STATUSES,
        "                if known is None or (known.status is PENDING and slot.status is not PENDING):",
        "                if known is None or known != slot:",
        "a reordered header makes a decided message pending again",
    ),
    Mutant(
        "a packet fills the whole gap", GAPS,
        "[part for part in ((first, packet), (packet + 1, end)) if part[0] < part[1]]",
        "[part for part in ((first, packet),) if part[0] < part[1]]",
        "packets that did not arrive count as present",
    ),
)  # fmt: skip
