"""The way of a request through the server, as one list.

A request passes these stages in order until one of them answers. A plain GET of a page in memory does not: what the
stages would answer is kept with the page, and ``qosweb.server.connection.connection`` sends it straight away.
"""

from qosweb.server.proxy.forward import ForwardTarget
from qosweb.server.request.answers import Answer
from qosweb.server.request.exchange import Exchange, Waiting
from qosweb.server.request.stages import (
    Site,
    admit,
    check_message,
    check_method,
    check_preconditions,
    choose_ranges,
    choose_variant,
    classify,
    find_page,
    look_up_file,
    pass_on,
    resolve_target,
    whole_page,
)

STAGES = (
    check_message,  # version, host, expectations          400 417 505
    check_method,  # GET, HEAD, OPTIONS; no large bodies   204 405 413 (with a body: 400; OPTIONS: 400 404 421)
    resolve_target,  # target -> canonical path            400 404 421
    look_up_file,  # only for rules on size, owner or last_modified
    classify,  # which class it is in
    admit,  # may it start now?                            307 429 503
    find_page,  # memory, or the disk after waiting        301 403 404 500 503
    pass_on,  # no file here: the server behind this one   (all that it says, 502 503 504 508)
    choose_variant,  # Accept-Encoding
    check_preconditions,  # If-Match and its kin           304 412
    choose_ranges,  # Range, If-Range                      206 416
    whole_page,  # all the rest                            200
)


def proceed(exchange: Exchange, site: Site) -> Answer | ForwardTarget | Waiting:
    """Take ``exchange`` through the stages from where it is."""
    while True:
        step = STAGES[exchange.stage](exchange, site)
        if step is not None:
            return step
        exchange.stage += 1


def restart_at_find_page(exchange: Exchange) -> None:
    """Take ``exchange`` back to where its page is found: the file has changed since."""
    exchange.resource = exchange.page = exchange.failure = None
    exchange.stage = STAGES.index(find_page)
