"""Admission control: asks the QoS engine which requests start, wait, are denied or go to another node.

`AdmissionControl` is the interface; see `control`. A request is described by `RequestFacts`. Entering yields a
`Permit`, a `Denial`, a `Redirect`, a `Forward` or a `Wait`; closing the permit settles the request.

    facts            facts about a request that conditions may use
    outcomes         Permit, Denial, Redirect, Forward, Wait
    control          the interface to servers and middleware
    gate             asks the engine about requests, and charges their cost; `engine.local.request_queue` denies
    processor_queue  requests that wait for their turns while the processor is full
    engine_driver    runs the QoS engine on the event loop
    classifier       finds the class of a request; access_history and link_map serve its conditions
    class_accounts   counters and response fields of each class
    capacity_meter   measures capacity; machine_load samples load, capacity_report reports both to the cluster
    redirects        requests to and from other nodes
    resources        resources that requests queue for: limit, use, and the cause of contention
"""

from qosweb.admission.class_accounts import ClassAccount
from qosweb.admission.clock import Clock
from qosweb.admission.control import AdmissionControl
from qosweb.admission.facts import FileFacts, HeadFacts, RequestFacts
from qosweb.admission.outcomes import Decided, Denial, Forward, OnDecided, Permit, Redirect, Wait
from qosweb.admission.resources import ResourceState

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
    "ResourceState",
    "Wait",
]
