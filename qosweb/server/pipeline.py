"""Request pipeline: the ordered list of stages that turn a request into a response.

A request passes the stages in order until one of them returns a response. Two kinds of requests skip them (the fast
paths): a plain GET of a cached page, whose response ``qosweb.server.connection.connection`` sends at once, and a
plain request for an upstream server, which ``qosweb.server.proxy.plain_relay`` forwards at once. If the latter has to
wait for a server, it enters at LOOK_UP_FILE: its head is known to pass the stages before.
"""

from qosweb.server.proxy.attempts import ForwardTarget
from qosweb.server.request.answers import Answer
from qosweb.server.request.exchange import Exchange, Waiting
from qosweb.server.request.release_stages import choose_release, send_blob
from qosweb.server.request.stages import (
    RequestServices,
    admit,
    check_message,
    check_method,
    check_preconditions,
    choose_ranges,
    choose_variant,
    classify,
    find_page,
    forward_upstream,
    look_up_file,
    read_body,
    refuse_blocked,
    resolve_target,
    send_page,
)

STAGES = (
    check_message,  # host, expectations, ticket            400 417
    check_method,  # GET, HEAD, OPTIONS; no large bodies   204 405 413 (with a body: 400; OPTIONS: 400 404 421)
    send_blob,  # files of releases, for other nodes       200 401 404
    resolve_target,  # target -> canonical path            400 404 421
    refuse_blocked,  # clients and networks on the block list   403
    choose_release,  # of a site that the cluster stores   503
    read_body,  # small ones completely                    400 408 413
    look_up_file,  # only for rules on size, owner or last_modified, or if there are upstream servers
    classify,  # find the QoS class
    admit,  # start, wait, deny or go to another node      307 429 503
    find_page,  # from memory, or from disk after a wait   301 403 404 500 503
    forward_upstream,  # no file here: ask the upstream    (its status, or 204 404 502 503 504 508)
    choose_variant,  # Accept-Encoding
    check_preconditions,  # If-Match, If-None-Match, ...   304 412
    choose_ranges,  # Range, If-Range                      206 416
    send_page,  # the complete page                        200
)

LOOK_UP_FILE = STAGES.index(look_up_file)


def proceed(exchange: Exchange, services: RequestServices) -> Answer | ForwardTarget | Waiting:
    """Run the stages of ``exchange`` from its current stage until one returns a response, a target or WAITING."""
    while True:
        step = STAGES[exchange.stage](exchange, services)
        if step is not None:
            return step
        exchange.stage += 1


def restart_at_find_page(exchange: Exchange) -> None:
    """Set ``exchange`` back to the stage ``find_page``, because its file has changed."""
    exchange.resource = exchange.page = exchange.failure = None
    exchange.stage = STAGES.index(find_page)
