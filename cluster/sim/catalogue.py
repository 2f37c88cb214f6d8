"""The wrong versions of the layers that the specifications have to notice, bottom to top."""

from __future__ import annotations

from cluster.sim.mutation import Mutant

MUTANTS: tuple[Mutant, ...] = (
    # ---- links
    Mutant(
        "a break loses what was in flight", "cluster.links",
        "        for seqno, body in enumerate(link.unacked, first):",
        "        for seqno, body in enumerate([], first):",
        "nothing is sent again on a new connection",
    ),
    Mutant(
        "a repetition is delivered again", "cluster.links",
        "        if frame.seqno != expected or not link.greeted:",
        "        if frame.seqno > expected or not link.greeted:",
        "what was received and is sent again counts as new",
        equivalent="a greeting says how far the stream got, so nothing is sent that is there already; a second lock",
    ),
    Mutant(
        "a gap goes unnoticed", "cluster.links",
        "            expected = link.in_seqno + 1",
        "            expected = frame.seqno",
        "any number of a stream is taken for the next one",
        equivalent="a connection is first in, first out, and the greeting says where to go on; a second lock",
    ),
    Mutant(
        "a stream goes on after a loss", "cluster.links",
        "                link.reliable = True\n                link.new_stream()",
        "                link.reliable = True",
        "who comes back into the reliable set gets the stream whose end was thrown away",
    ),
    Mutant(
        "the old life's messages for the new one", "cluster.links",
        "            link.in_stream = link.in_seqno = link.owed = 0",
        "            pass",
        "the stream of a peer that restarted is expected to go on",
    ),
    Mutant(
        "acknowledged before it was received", "cluster.links",
        "self.around.outbox.append(Send((peer,), LinkAck(link.in_stream, link.in_seqno)))",
        "self.around.outbox.append(Send((peer,), LinkAck(link.in_stream, link.in_seqno + 1)))",
        "the sender forgets a message that the receiver does not have",
    ),
    # ---- membership
    Mutant(
        "a cid is used again", "cluster.membership",
        "        self.epoch = self.epoch_seen if self.epoch_seen > self.epoch else self.epoch + 1",
        "        self.epoch = max(self.epoch_seen, self.epoch, 1)",
        "a process proposes twice in one epoch",
    ),
    Mutant(
        "one member short", "cluster.membership",
        "            if proposals.get(member) != proposed:\n                return",
        "            if proposals.get(member) != proposed and member != members[-1]:\n                return",
        "a view forms without the proposal of its last member",
    ),
    Mutant(
        "whoever proposed in this epoch", "cluster.membership",
        "            if proposals.get(member) != proposed:",
        "            if proposals.get(member, (0, ()))[0] != epoch:",
        "a view forms of members that proposed different sets",
    ),
    Mutant(
        "the epoch is not on disk", "cluster.membership",
        "        around.outbox.append(Persist(Epoch(self.epoch)))",
        "        pass",
        "after a restart the epochs begin again",
    ),
    Mutant(
        "nobody is pulled up", "cluster.membership",
        "anew=proposal.epoch > self.epoch and peer in self._clique()",
        "anew=False",
        "a proposal of a later epoch is not joined",
    ),
    # ---- within-view FIFO
    Mutant(
        "messages of the view before", "cluster.within_view",
        "                source.msgs = MessageQueue()\n                source.into",
        "                source.into",
        "what was sent in one view is delivered in the next",
    ),
    Mutant(
        "the count goes on over a view", "cluster.within_view",
        "        source.last_rcvd = 0\n        source.later = None",
        "        source.later = None",
        "the messages of a new view are numbered from where the old one ended",
    ),
    Mutant(
        "a forwarded message from any view", "cluster.within_view",
        "            if source is not None and body.view_id == self.current_view.id and body.index",
        "            if source is not None and body.index",
        "what is forwarded from another view is taken for one of this view",
    ),
    Mutant(
        "dropped before everybody has it", "cluster.within_view",
        "            source.msgs.drop(min(count, source.last_dlvrd))",
        "            source.msgs.drop(source.last_dlvrd)",
        "a message is gone that others still need forwarded",
    ),
    # ---- virtual synchrony
    Mutant(
        "deliver past the cut", "cluster.virtual_synchrony",
        "        return limit if self.limits is None else min(limit, self.limits[sender])",
        "        return limit",
        "messages beyond what was announced are delivered during a change",
    ),
    Mutant(
        "forget to wait for one sync", "cluster.virtual_synchrony",
        "        return len(self._right_syncs()) == len(common)",
        "        return len(self._right_syncs()) >= len(common) - 1",
        "the view is delivered before all sync messages are there",
    ),
    Mutant(
        "the sync of another change", "cluster.virtual_synchrony",
        "            if member in ours and sync is not None and sync.cid == start_id:",
        "            if member in ours and sync is not None:",
        "a sync message with any start-change id will do",
    ),
    Mutant(
        "everybody moves along", "cluster.virtual_synchrony",
        "            if sync.view_id == self.current_view.id and len(sync.cut) == width",
        "            if len(sync.cut) == width",
        "the transitional set has members that come from other views",
    ),
    Mutant(
        "obsolete views are delivered", "cluster.virtual_synchrony",
        "            and self.mbrshp_view.start_id(self.around.me) == self.start_change_now[0]\n",
        "",
        "a view is delivered although a newer change has begun",
    ),
    Mutant(
        "the view before its messages", "cluster.virtual_synchrony",
        "            and all(self.of[member].last_dlvrd == limit for member, limit in self.limits.items())",
        "            and True",
        "a view is delivered before the messages of the agreed cut",
    ),
    Mutant(
        "the smallest cut", "cluster.virtual_synchrony",
        "map(max, zip(*cuts, strict=True))",
        "map(min, zip(*cuts, strict=True))",
        "what only some of the transitional set have is not delivered, though they may have delivered it",
    ),
    Mutant(
        "nothing is forwarded", "cluster.virtual_synchrony",
        "                if lacking:",
        "                if False:",
        "who lacks a message of somebody gone waits for it for ever",
    ),
    Mutant(
        "a cut that promises too much", "cluster.virtual_synchrony",
        "        cut = tuple(self.of[member].msgs.prefix for member in self.current_view.members)",
        "        cut = tuple(self.of[member].msgs.prefix + 1 for member in self.current_view.members)",
        "a message is announced that may not exist",
    ),
    Mutant(
        "who has moved on is forgotten", "cluster.virtual_synchrony",
        "            self.sync_before[sender] = known",
        "            pass",
        "the cut that a view needs is given up for one of a later view",
    ),
    # ---- self delivery
    Mutant(
        "no block", "cluster.self_delivery",
        "        return self.block_status == BLOCKED and super().set_cut_pre()",
        "        return super().set_cut_pre()",
        "the cut is made before the client stopped sending",
        equivalent="the view order answers block at once, within the same step",
    ),
    Mutant(
        "blocked for ever", "cluster.self_delivery",
        "        super().view_eff(view)\n        self.block_status = UNBLOCKED",
        "        super().view_eff(view)",
        "the client is not unblocked by the view",
    ),
    # ---- view order
    Mutant(
        "one acknowledgement is everybody's", "cluster.view_order",
        "            self.acked[rank] = count\n",
        "            self.acked = [max(count, known) for known in self.acked]\n",
        "a message is safe before everybody has it",
    ),
    Mutant(
        "acknowledged before it is dealt with", "cluster.view_order",
        "        count = self.acked[self.own_rank]\n        if count ==",
        "        count = self.delivered\n        if count ==",
        "what is not on disk yet is acknowledged",
    ),
    Mutant(
        "one who has it says that all do", "cluster.view_order",
        "Ack(view.id, self._own_ack(), self.reported_safe)",
        "Ack(view.id, self._own_ack(), self.acked[self.own_rank])",
        "a message is safe before everybody has it",
    ),
    Mutant(
        "the sender keeps it to itself", "cluster.view_order",
        "            to = self.others\n",
        "            to = ()\n",
        "nobody but its sender learns that the last message is safe",
    ),
    Mutant(
        "acknowledged to nobody", "cluster.view_order",
        "            self.owed.setdefault(rank, self.delivered)",
        "            pass",
        "a message that nobody answers with one of his own is never safe",
    ),
    Mutant(
        "what was under way when the view ended", "cluster.view_order",
        "        self.outgoing.clear()",
        "        pass",
        "messages of the old view are sent in the new one",
        equivalent="what is handed down leaves within the same step, and nothing is taken in while blocked",
    ),
    # ---- ATOP
    Mutant(
        "first come, first delivered", "cluster.atop",
        "            rank = places.index(place)\n            queue = pending[rank]",
        "            rank = next((r for r, q in enumerate(pending) if q), places.index(place))\n"
        "            queue = pending[rank]",
        "slots are not waited for",
    ),
    Mutant(
        "no null messages", "cluster.atop",
        "        if self.own_place < self.horizon or not self.announced:",
        "        if not self.announced:",
        "an idle member holds up everybody",
    ),
    Mutant(
        "a distribution of one's own", "cluster.atop",
        "        if dist > self.send_dist:\n            self._adopt(dist)",
        "        if dist > self.send_dist + 1:\n            self._adopt(dist)",
        "who hears of a new distribution does not take it over",
    ),
    # ---- sequencer
    Mutant(
        "places in the order of arrival", "cluster.sequencer",
        "            elif pending[rank]:\n                placed.popleft()",
        "            elif any(pending):\n                rank = next(r for r, q in enumerate(pending) if q)\n"
        "                placed.popleft()",
        "a place is given to whoever is there",
    ),
    # ---- primary views
    Mutant(
        "accept half instead of a majority", "cluster.primary",
        "    return 2 * common > len(view.members) or (2 * common == len(view.members) and view.members[0] in present)",
        "    return 2 * common >= len(view.members)",
        "both halves of an even view go on",
    ),
    Mutant(
        "a third is enough", "cluster.primary",
        "    return 2 * common > len(view.members) or (",
        "    return 3 * common > len(view.members) or (",
        "quorums of a view need not intersect",
    ),
    Mutant(
        "forget to wait for one info", "cluster.primary",
        "        if len(self.info_rcvd) == len(self.cur.members) and self._may_attempt(self.cur):",
        "        if len(self.info_rcvd) >= len(self.cur.members) - 1 and self._may_attempt(self.cur):",
        "a view is attempted before all infos are in",
    ),
    Mutant(
        "ambiguous views are forgotten", "cluster.primary",
        "            self.amb[self.cur.id] = self.cur\n",
        "",
        "an attempted view is not remembered as such",
    ),
    Mutant(
        "only the active view counts", "cluster.primary",
        "all(is_quorum(view.members, used) for used in self.use)",
        "is_quorum(view.members, self.act)",
        "ambiguous views need not agree",
    ),
    Mutant(
        "nothing is learned from infos", "cluster.primary",
        "        self.amb.update((view.id, view) for view in info.amb)",
        "        pass",
        "views that others attempted are not taken into account",
    ),
    Mutant(
        "one registration settles a view", "cluster.primary",
        "        if len(self.rcvd_rgst) == len(self.cur.members) and",
        "        if",
        "a view becomes active before all members registered it",
    ),
    Mutant(
        "strangers found a primary", "cluster.primary",
        "        return self.act is not None and all(",
        "        return all(",
        "a view in which nobody knows a primary view is attempted",
    ),
    Mutant(
        "the attempt is not on disk", "cluster.primary",
        "            self.client_cur = self.cur\n            self._persist()",
        "            self.client_cur = self.cur",
        "who restarts has forgotten which view it attempted",
    ),
    Mutant(
        "an attempt of the past", "cluster.primary",
        "        if lost:\n            self.above.primary_lost()",
        "        pass",
        "the total order is not told that its view is over",
        equivalent="what it sends meanwhile goes nowhere; only the application is told too late",
    ),
    # ---- total order
    Mutant(
        "confirm before safe", "cluster.total_order",
        "        self.around.outbox.append(Persist(Appended(position, run)))",
        "        self.around.outbox.append(Persist(Appended(position, run)))\n"
        "        self.next_confirm = self.length\n        self._report()",
        "an entry is delivered before everybody has it",
    ),
    Mutant(
        "drop the LABEL guard", "cluster.total_order",
        "        while self.delay and self.is_normal and self.below.room:",
        "        while self.delay and self.current is not None and self.below.is_primary and self.below.room:",
        "entries are labelled during the exchange, and ordered twice",
    ),
    Mutant(
        "register before establishing", "cluster.total_order",
        "        self.status = SEND\n",
        "        self.status = SEND\n        self.below.register()\n",
        "a view is registered before its past is known",
    ),
    Mutant(
        "the tail is left out", "cluster.total_order",
        "            tuple(self.log.since(self.next_confirm)),",
        "            (),",
        "summaries have no tentative order",
    ),
    Mutant(
        "loose content is left out", "cluster.total_order",
        "            tuple(pair for first in sorted(self.content) for pair in self.content[first].labelled()),",
        "            (),",
        "an entry that was labelled and not ordered is forgotten",
    ),
    Mutant(
        "the high primary stays low", "cluster.total_order",
        "        self.high_primary = self.current.id\n",
        "",
        "an established view does not count in later exchanges",
    ),
    Mutant(
        "the log is not on disk", "cluster.total_order",
        "        self.around.outbox.append(Persist(Appended(position, run)))",
        "        pass",
        "what was acknowledged is gone after a restart",
    ),
    Mutant(
        "the new order is not on disk", "cluster.total_order",
        "        self.around.outbox.append(\n            Persist(Rebuilt(",
        "        (\n            Persist(Rebuilt(",
        "what was registered is gone after a restart",
    ),
    Mutant(
        "acknowledged before it was supplied", "cluster.total_order",
        "        self.gotstate[sender] = summary\n",
        "        self.gotstate[sender] = summary\n        if self.current.members[0] != sender:\n"
        "            self.below.processed(1)\n",
        "summaries are acknowledged by one who still lacks the past",
    ),
    Mutant(
        "batches counted as one", "cluster.total_order",
        "            self._safe_count += body.pack.count",
        "            self._safe_count += 1",
        "only the first entry of a batch is confirmed",
    ),
    Mutant(
        "entries of the exchange stay unconfirmed", "cluster.total_order",
        "        self._safe_count = self.length\n",
        "",
        "the count of safe positions is that of the view before",
    ),
    Mutant(
        "the snapshot does not move the report", "cluster.total_order",
        "            self.next_report = restored.position\n",
        "",
        "after a snapshot the entries below it are reported again",
    ),
    Mutant(
        "a snapshot without its labels", "cluster.total_order",
        "        self.snapshot = Snapshotted(self.next_report, highest, state)",
        "        self.snapshot = Snapshotted(self.next_report, (), state)",
        "what a snapshot covers is not recognised, and ordered again",
    ),
    Mutant(
        "truncated too far", "cluster.total_order",
        "        base = min(base, self.snapshot.position)",
        "        base = self.next_report",
        "entries are dropped that no snapshot covers",
    ),
    Mutant(
        "what was kept aside is lost", "cluster.total_order",
        "        for sender, batch in aside:",
        "        for sender, batch in aside[:0]:",
        "what was ordered while supplies were awaited is dropped",
    ),
    # ---- summaries
    Mutant(
        "ordered again after truncation", "cluster.summaries",
        "        if label.origin != NOBODY and (label.origin not in highest or label > highest[label.origin])",
        "        if label.origin != NOBODY and label not in dict(shortorder)",
        "content that the representative has truncated is ordered a second time",
    ),
    Mutant(
        "the oldest primary decides", "cluster.summaries",
        "    high = max(_high(summary) for summary in gotstate.values())",
        "    high = min(_high(summary) for summary in gotstate.values())",
        "the order of an outdated view is taken over",
    ),
    Mutant(
        "the shortest order decides", "cluster.summaries",
        "        key=lambda member: (-_length(gotstate[member]), member),",
        "        key=lambda member: (_length(gotstate[member]), member),",
        "of several orders of one view the shortest is taken",
        equivalent="the paper takes any of them: what is confirmed they all have, and the rest is exchanged as content",
    ),
    Mutant(
        "nobody lacks anything", "cluster.summaries",
        "        if _high(gotstate[member]) != high and gotstate[member].next_confirm < chosen.next_confirm",
        "        if False",
        "who missed confirmed entries is not supplied with them",
    ),
    Mutant(
        "rest in nobody's order", "cluster.summaries",
        "        for label in sorted(known)\n",
        "        for label in sorted(known, reverse=True)\n",
        "the rest of the content is not ordered by label",
    ),
    # ---- replica
    Mutant(
        "no end for what a snapshot brought", "cluster.replica",
        "            if ticket:\n                self._resolve(ticket, True, -1, \"\")",
        "            pass",
        "a submission that was delivered inside a snapshot is never resolved",
    ),
    Mutant(
        "a ticket that does not move on", "cluster.tickets",
        "            first += len(run)\n",
        "            first += 0\n",
        "submissions are told the end of others",
    ),
    Mutant(
        "checkpoints differ", "cluster.replica",
        "        state = _encode(State(self.view, sorted(self.checkpoints.items()), self.machine.snapshot()))",
        "        state = _encode(State(self.primary, sorted(self.checkpoints.items()), self.machine.snapshot()))",
        "a snapshot holds what is not a function of the order",
    ),
)  # fmt: skip
