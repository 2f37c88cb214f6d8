"""The admission of a node, for applications of one's own: who may start is decided as `qosweb serve` decides it.

    from qosweb.middleware import AsgiAdmission, Doorkeeper, guard

    door = Doorkeeper.from_file("shop.webqos", capacity="2MB/s")
    guard(application, door)                            # of aiohttp
    application = AsgiAdmission(application, door)      # any ASGI application

One process is a cluster of one here; nodes in front of applications (`qosweb serve --upstream`) are for several.
"""

from qosweb.middleware.doorkeeper import Doorkeeper, Place
from qosweb.middleware.for_aiohttp import guard
from qosweb.middleware.for_asgi import AsgiAdmission

__all__ = ["AsgiAdmission", "Doorkeeper", "Place", "guard"]
