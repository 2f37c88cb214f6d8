"""Admission control middleware for aiohttp and ASGI applications, with the decisions of `qosweb serve`.

    from qosweb.middleware import AsgiAdmission, Doorkeeper, guard

    door = Doorkeeper.from_file("shop.webqos")
    guard(application, door)                            # an aiohttp application
    application = AsgiAdmission(application, door)      # any ASGI application

For another framework, describe each request by an `ApplicationRequest` and call the doorkeeper:

    decided = await door.enter(ApplicationRequest("GET", "/cart", [("Host", "shop.example")], "192.0.2.1"))

How many requests run at a time is found. A `Denial` has the status, header fields and text of the response. Close a
`Permit` with the number of body bytes sent when the request is over. `response_fields` gives the header fields that
tell the client the decision, `response_body` the body of a denial.

Each process has its own queue. For one queue over several nodes, put `qosweb serve --upstream` in front.
"""

from qosweb.admission import Denial, Permit
from qosweb.middleware.doorkeeper import ApplicationRequest, Doorkeeper, response_body, response_fields
from qosweb.middleware.for_aiohttp import guard
from qosweb.middleware.for_asgi import AsgiAdmission

__all__ = [
    "ApplicationRequest",
    "AsgiAdmission",
    "Denial",
    "Doorkeeper",
    "Permit",
    "guard",
    "response_body",
    "response_fields",
]
