"""Admission control: decides which request may start, which waits, which is denied, and which goes to another node.

`AdmissionControl` is the interface; see `control`. A request is described by `RequestFacts`. Entering yields a
`Permit`, a `Denial`, a `Redirect`, a `Forward` or a `Wait`; closing the permit settles the request.

    facts            what a policy may ask about a request
    outcomes         what becomes of a request
    control          the interface to servers and middleware
    gate             may this request start? what did it cost?
    engine_driver    the QoS engine on the event loop
    classifier       the class of a request; access_history, link_map: what conditions ask for
    class_accounts   counters and response fields of each class
    capacity_meter   measured capacity; machine_load, capacity_report: what the cluster is told
    redirects        requests to and from other nodes
"""

from qosweb.admission.class_accounts import ClassAccount
from qosweb.admission.clock import Clock
from qosweb.admission.control import AdmissionControl
from qosweb.admission.facts import FileFacts, HeadFacts, RequestFacts
from qosweb.admission.outcomes import Decided, Denial, Forward, OnDecided, Permit, Redirect, Wait

__all__ = [
    "AdmissionControl",
    "ClassAccount",
    "Clock",
    "Decided",
    "Denial",
    "FileFacts",
    "Forward",
    "HeadFacts",
    "OnDecided",
    "Permit",
    "Redirect",
    "RequestFacts",
    "Wait",
]
