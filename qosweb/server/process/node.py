"""Node: builds, starts and stops all parts of one ``qosweb serve`` process."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from qosweb.admission import AdmissionControl, Clock, ResourceState
from qosweb.errors import UsageError
from qosweb.http.forwarded import TrustedNetworks
from qosweb.http.request_heads import RequestHeads
from qosweb.server.accesslog.recorder import AccessRecorder
from qosweb.server.accesslog.resource_events import ResourceEvents
from qosweb.server.cluster.access_facts import AccessFacts
from qosweb.server.cluster.clock_skew import ClockSkewMonitor
from qosweb.server.cluster.live_figures import LiveFigures
from qosweb.server.cluster.membership import ClusterMembership
from qosweb.server.cluster.proxied_nodes import ProxiedNodes
from qosweb.server.cluster.upstream_votes import UpstreamVotes
from qosweb.server.connection.client_share import SharedPlaces
from qosweb.server.connection.connection import HttpConnection
from qosweb.server.connection.connections import Connections
from qosweb.server.connection.context import ConnectionContext, ConnectionLimits
from qosweb.server.connection.fast_path import PlainHeads
from qosweb.server.connection.head_parser import HeadLimits
from qosweb.server.connection.listener import Listener
from qosweb.server.connection.proxied_connection import ProxiedConnection
from qosweb.server.connection.tls import TlsFiles
from qosweb.server.files.files import Root
from qosweb.server.files.page_store import PageStore
from qosweb.server.pacing.line_watch import LineWatch
from qosweb.server.pacing.send_pacer import SendPacer
from qosweb.server.pacing.socket_buffers import limit_unsent
from qosweb.server.process.console import log_message, place_of
from qosweb.server.process.node_blocks import block_service
from qosweb.server.process.node_releases import NodeReleases
from qosweb.server.process.policy_changes import PolicyChanges, read_policy
from qosweb.server.process.startup import BACKLOG, address_of, bind, default_name, open_log, open_root
from qosweb.server.proxy.forward_head import ForwardHeads
from qosweb.server.proxy.request_body import SMALL_BODIES_MAX, BodyLimits
from qosweb.server.proxy.upstream import StreamLimits, Upstreams
from qosweb.server.proxy.upstream_server import ServerDefaults
from qosweb.server.request.error_pages import ErrorPages
from qosweb.server.request.stages import RequestServices

if TYPE_CHECKING:
    from cluster.names import View
    from qosweb.engine.replicated.compiled_policy import CompiledPolicy
    from qosweb.engine.replicated.effects import EntryRejected, Reported, UpstreamsReported
    from qosweb.server.proxy.upstream_server import UpstreamServer
    from qosweb.server.releases.release_service import ReleaseService
    from qosweb.settings import ServeSettings

SWEEP_EVERY_S = 0.5
FLUSH_EVERY_S = 0.2
LINKS_EVERY_S = 1.0  # period of scans for changed links
LINKS_REST = 20  # pause after a scan, in durations of the scan, if that is longer: large sites are scanned less often
LOG_CLOSE_S = 5.0
FOUNDING_S = 10.0
CONNECT_S = 5.0  # to an upstream server or another node
MEASURE_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class Listening:
    url: str
    address: str


class Node:
    """All parts of a server process. Needs a running event loop. Call ``start``, perhaps ``drain``, then ``close``."""

    def __init__(self, settings: ServeSettings) -> None:
        self.settings = settings
        self.name = settings.name or default_name()
        self.clock = Clock()
        self.started_at = self.clock.wall(self.clock.read())
        self.store = PageStore(
            None if settings.site else open_root(settings.root),
            index=settings.index,
            memory_max=settings.cache_size,
            file_max=settings.cache_file_max,
            fresh_s=settings.cache_fresh,
        )
        self.tls = None
        if settings.tls_cert is not None and settings.tls_key is not None:
            self.tls = TlsFiles(settings.tls_cert, settings.tls_key)
        self._error_pages = ErrorPages(settings.error_pages)
        self.log = open_log(settings)
        self.loop = asyncio.get_running_loop()
        policy = read_policy(settings)
        self.pacer: SendPacer | None = None
        self.line: LineWatch | None = None
        if settings.capacity is not None or (settings.find_line and policy is not None):
            rate_bps = settings.capacity or inf
            self.pacer = SendPacer(self.loop, rate_bps, lambda accounts: self.admission.send_weights(accounts))
        self.admission = AdmissionControl(
            self.loop,
            self.clock,
            policy,
            name=self.name,
            capacity_bps=settings.capacity,
            throttle=self.pacer,
            is_member=settings.is_member,
            life=int(self.started_at),
            index=settings.index,
            finds_processor=settings.find_processor,
            listener=self,
            log_message=log_message,
        )
        self.recorder = AccessRecorder(
            self.clock,
            self.name,
            self.log,
            settings.access_log_format,
            self.admission.accounts,
            settings.access_log_fields,
        )
        self.connections = Connections(
            total_max=settings.max_connections,
            per_client_max=settings.max_connections_per_client,
            share_ppm=settings.client_share,
        )
        if self.admission.processor is not None:
            self.admission.processor.start(lambda: len(self.connections), self.recorder.record_turn)
        self.open_files = SharedPlaces(settings.max_open_files, settings.client_share)
        self.membership: ClusterMembership | None = None
        self.policies = PolicyChanges(settings, self.admission, policy, lambda: self.membership is not None)
        self._releases = NodeReleases(settings, self.name, self.admission, self.pacer, self._forget_heads)
        if self.releases is not None:
            self.store.root = self.releases.root
        self.blocking = block_service(self)
        self.upstreams = Upstreams(
            self.loop,
            self.name,
            settings.upstream,
            ServerDefaults(
                CONNECT_S,
                settings.upstream_timeout,
                settings.upstream_timeout,
                settings.upstream_connections,
                settings.client_share,
            ),
            StreamLimits(settings.max_streams, settings.stream_after, settings.stream_idle),
            self._upstream_changed,
        )
        services = RequestServices(
            self.store,
            self.admission,
            self.clock,
            is_secure=self.tls is not None,
            blocks=self.blocking.blocks,
            body_limits=BodyLimits(
                settings.max_body, settings.min_body_rate, settings.send_timeout, settings.body_timeout
            ),
            small_bodies=SharedPlaces(SMALL_BODIES_MAX, settings.client_share),
            routes=self.upstreams.routes if settings.upstream else None,
            releases=self.releases,
        )
        self.upstream_votes = UpstreamVotes(self.loop, self.upstreams.servers, self.admission, log_message)
        self._context = ConnectionContext(
            self.loop,
            services,
            self.recorder,
            self.connections,
            ConnectionLimits(
                HeadLimits(settings.max_request_line, settings.max_header_size, settings.max_headers),
                header_timeout_s=settings.header_timeout,
                idle_timeout_s=settings.idle_timeout,
                send_timeout_s=settings.send_timeout,
            ),
            self.open_files,
            PlainHeads(),
            ForwardHeads(services, self.recorder, self.upstreams.me),
            RequestHeads(settings.max_headers),
            self.pacer,
            self.upstreams,
            self.name,
            self._report_fault,
            TrustedNetworks(settings.trust_proxy),
            self._error_pages,
            "http" if self.tls is None else "https",
        )
        self.live = LiveFigures(self, is_member=settings.is_member)
        self._access_facts = None if self.live.reports is None else AccessFacts(self, self.live.reports)
        self.faults = 0
        self.primary_since = self.started_at
        self.primary: View | None = None
        self._clock_watch: ClockSkewMonitor | None = None
        self._proxied_nodes = ProxiedNodes(self._context.trusted, log_message) if settings.proxy_protocol else None
        self._url = ""
        self._has_primary = asyncio.Event()
        self._viewed: tuple[int, View | None] = (-1, None)
        self._server: asyncio.Server | Listener | None = None
        self._chores: list[asyncio.Task[None]] = []
        self._is_draining = False

    async def start(self) -> Listening:
        listener = bind(self.settings.listen, "--listen")
        if self.settings.capacity is not None:
            limit_unsent(listener)
        if self.pacer is not None and self.settings.find_line:
            most_bps = self.settings.capacity or inf
            transports = self.connections.transports
            self.line = LineWatch(self.loop, self.pacer, transports, most_bps, self._on_line_rate)
            self.line.start()
        address = address_of(listener)
        await self._enter_cluster(f"{'http' if self.tls is None else 'https'}://{address}")
        self.recorder.announce_policy()
        connection = ProxiedConnection if self.settings.trust_proxy else HttpConnection
        has_proxy_headers = self.settings.proxy_protocol
        if self.tls is not None or has_proxy_headers:
            self._server = Listener(
                self._context, listener, connection, tls=self.tls, has_proxy_headers=has_proxy_headers
            )
        else:
            self._server = await self.loop.create_server(
                lambda: connection(self._context), sock=listener, backlog=BACKLOG
            )
        await self._refresh_links()
        self.upstreams.start()
        self._releases.start()
        self._chores = [
            asyncio.create_task(self._sweep(), name="sweep"),
            asyncio.create_task(self._flush(), name="flush"),
            asyncio.create_task(self._follow_links(), name="links"),
            asyncio.create_task(self._measure(), name="measure"),
            asyncio.create_task(self.live.run(), name="live figures"),
            asyncio.create_task(ResourceEvents(self.resources, self.recorder.resource_changed).run(), name="resources"),
        ]
        if self._access_facts is not None:
            self._chores.append(asyncio.create_task(self._access_facts.run(), name="access facts"))
        return Listening(f"{'http' if self.tls is None else 'https'}://{address}/", address)

    @property
    def draining(self) -> bool:
        return self._is_draining

    def resources(self) -> list[ResourceState]:
        return self.admission.resources([one.name for one in self.upstreams.servers if one.settings.slots])

    def reload(self) -> str:
        """Read root, pages, error pages, specification and certificate again. Returns a sentence about the policy.

        Raises UsageError, and changes nothing, if one of them is invalid.
        """
        root = open_root(self.settings.root) if self.releases is None else self.releases.root  # a link may have changed
        use_policy = self.policies.read_again()
        error_pages = self._error_pages.read()
        if self.tls is not None:
            self.tls.reload()
        self._error_pages.replace(error_pages)
        self.store.start_over(root)
        self._forget_heads()
        return use_policy()

    @property
    def releases(self) -> ReleaseService | None:
        """The site's releases; None without `--site`."""
        return self._releases.service

    def policy_changed(self, position: int, policy: CompiledPolicy) -> None:
        """A new policy is in force (`EngineListener`)."""
        self._forget_heads()
        if self.membership is not None:
            self.membership.follow_policy()
        if self._access_facts is not None:
            self._access_facts.follow_policy()
        index = position if self.membership is not None and position >= 0 else None
        self.recorder.policy_changed(index)
        self.connections.renew_log_parts()
        self.policies.in_force(policy, index)

    def _forget_heads(self) -> None:
        self._context.plain_heads.forget()
        self._context.forward_heads.forget()

    # ---- upstream servers

    def _upstream_changed(self, server: UpstreamServer) -> None:
        """A server was ejected or has returned."""
        reason = "" if server.health.is_in else server.health.reason
        self.recorder.upstream_changed(server.name, reason)
        log_message(f"upstream {server.name} is " + (f"out: {reason}" if reason else "back"))
        self.upstream_votes.report()

    def upstreams_reported(self, _effect: UpstreamsReported) -> None:
        self.upstream_votes.count_soon()

    # ---- cluster

    def viewed(self, position: int, view: View) -> None:
        """A primary view was established at ``position`` of the order. It is logged once this node is in it."""
        self._viewed = position, view
        self._announce_view()
        self.upstream_votes.count_soon()  # votes of nodes that left do not count

    def primary_changed(self, view: View | None) -> None:
        """The node is in the primary view ``view``, or decides alone if it is None."""
        self.primary = view
        if view is not None:
            self._has_primary.set()
            self.admission.redirects.renamed()
            self._report_capacity(anew=True)  # the cluster's time differs from the time of this node alone
        self.primary_since = self.clock.wall(self.clock.read())
        self.admission.accounts.change_scope(is_local=view is None)
        self.upstream_votes.count_soon()
        if view is None:
            self.recorder.view_changed("", None, [self.name], is_primary=False)
            self.connections.renew_log_parts()
            log_message("no primary view: this node decides alone until it is in one again")
        else:
            self._announce_view()
            log_message(f"primary view {view.id}: {' '.join(member.name for member in view.members)}")

    def _announce_view(self) -> None:
        position, view = self._viewed
        if view is not None and self.primary is not None and view.id == self.primary.id:
            self._viewed = -1, None
            self.recorder.view_changed(str(view.id), position, [one.name for one in view.members], is_primary=True)
            self.connections.renew_log_parts()

    def reported(self, effect: Reported) -> None:
        position = None if self.membership is None else effect.position
        self.recorder.capacity_fixed(position, effect.node.name, effect.capacity_bps)

    def entry_rejected(self, effect: EntryRejected) -> None:
        """All nodes reject an entry of the order, or the policy in it."""
        what = "an entry" if effect.text is None else "a policy"
        log_message(f"all nodes reject {what} from {effect.origin.name}: {effect.because}")
        self.policies.rejected(effect)

    async def _enter_cluster(self, url: str) -> None:
        """Start the engine; found or join the cluster if the settings name one."""
        settings, engine, driver = self.settings, self.admission.engine, self.admission.driver
        if engine is None or driver is None:
            return
        self._url = settings.public_url or url
        self.upstream_votes.report()
        if settings.is_member:
            policy = engine.machine.policy
            self.membership = await ClusterMembership.begin(
                settings,
                self.name,
                driver,
                self.primary_changed,
                self._releases.ledger(),
                self.blocking.interim,
                self.live.reports,
            )
            self._releases.join(self.membership)
            addresses = " ".join(self.membership.group.addresses)
            what = "founding" if settings.bootstrap else "joining"
            log_message(f"{what} a cluster; other nodes can join at {addresses} (--join)")
            self._clock_watch = ClockSkewMonitor(log_message)
            self.admission.accounts.change_scope(is_local=self.primary is None)
            self.admission.open_redirects(self.membership.replica.options.key, self.recorder.next_rid)
            if settings.bootstrap and engine.replicated.generation == 0:
                await self._found(policy)
        self._report_capacity()

    async def _found(self, policy: CompiledPolicy) -> None:
        """Put the founder's policy in force, as the first of the new cluster."""
        assert self.membership is not None
        try:
            async with asyncio.timeout(FOUNDING_S):
                await self._has_primary.wait()
            await self.policies.change_within(policy, FOUNDING_S)
        except TimeoutError:
            raise UsageError(f"the cluster was not founded within {FOUNDING_S:g} s") from None

    def _on_line_rate(self, line_bps: int | None) -> None:
        """The outgoing line has become short, is no longer short (None), or has perhaps another rate."""
        self.admission.refresh_limit()
        if line_bps is not None and self.admission.meter.line_bps is None:
            self.connections.pace_rest()
        self.admission.meter.line_bps = line_bps
        self._report_capacity()

    def _report_capacity(self, *, anew: bool = False) -> None:
        """Report this node's capacity and clock to the cluster, if they have changed noticeably."""
        engine, wall_ms = self.admission.engine, self.admission.wall_ms()
        if engine is None or wall_ms is None or self.draining:
            return
        if self._clock_watch is not None and self.primary is not None:
            self._clock_watch.check(wall_ms, engine.machine.pipes.values())
        if self._proxied_nodes is not None:
            self._proxied_nodes.check(engine.me, engine.machine.pipes)
        self.admission.report(self._url, anew=anew)

    def reopen_logs(self) -> None:
        self.recorder.reopen()

    async def leave(self) -> None:
        """Leave the cluster gracefully."""
        await self._releases.leave()
        if self.membership is not None:
            await self.membership.leave()
            self.membership = None

    async def drain(self, grace_s: float) -> bool:
        """Let requests finish for up to ``grace_s``, and accept no new ones. Returns whether all have finished.

        New connections are accepted only until the clients have arrived that other nodes have redirected here.
        """
        self._is_draining = True
        try:
            async with asyncio.timeout(grace_s):
                await self.admission.drain()
                self._shut()
                await self.connections.emptied.wait()
        except TimeoutError:
            self._shut()
            return False
        return True

    def _shut(self) -> None:
        if self._server is not None:
            self._server.close()
        self.connections.drain()

    async def close(self) -> None:
        """Abort the remaining connections, stop all tasks, and write the last lines of the access log."""
        if self._server is not None:
            self._server.close()
        self.connections.abort()
        await asyncio.sleep(0)  # lets the connections end and be logged
        for chore in self._chores:
            chore.cancel()
        await asyncio.gather(*self._chores, return_exceptions=True)
        if self.line is not None:
            self.line.close()
        self.admission.close()
        await self._releases.leave()
        if self.membership is not None:
            await self.membership.close()
        self.upstreams.close()
        self._releases.close()
        self.store.close()
        self.recorder.close(LOG_CLOSE_S)

    def _report_fault(self, error: Exception) -> None:
        self.faults += 1
        log_message(f"internal error: {type(error).__name__} at {place_of(error)}: {error}; the connection was closed")

    async def _refresh_links(self) -> None:
        classifier = self.admission.accounts.classifier
        if self.releases is not None:
            await asyncio.to_thread(classifier.refresh_links_from, self.releases.site.current.tree.page_files())
        elif isinstance(self.store.root, Root):
            await asyncio.to_thread(classifier.refresh_links, self.store.root.path)

    async def _follow_links(self) -> None:
        while True:
            began = self.loop.time()
            await self._refresh_links()
            await asyncio.sleep(max(LINKS_EVERY_S, LINKS_REST * (self.loop.time() - began)))

    async def _measure(self) -> None:
        while True:
            await asyncio.sleep(MEASURE_EVERY_S)
            await self.admission.sample_load()
            self.admission.meter.observe_fast_path(*self.recorder.plain_totals())
            if self.settings.capacity is None:
                self.admission.charge_measured_cost()
            self._report_capacity()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_EVERY_S)
            self.connections.sweep(self.clock.read())
            self.upstreams.sweep()
            self.upstream_votes.report()
            self.blocking.blocks.sweep()

    async def _flush(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_EVERY_S)
            self.recorder.flush()
