"""Attributes of constraints: the kinds of guarantee, with the operators and words that each accepts. Pure.

Neighbours: `lower` reads their values; `qosweb.webqos.policy.binding` and `terms` give them their meaning.
"""

ATTRIBUTES = (
    "server_resource",  # share of the capacity
    "num_requests",  # requests per second
    "num_bytes",  # bytes per second
    "available",  # always: requests are never denied
    "response_time",  # limit for the response time of served requests
    "lifetime",  # longest wait in the queue
    "channel",  # minimum rate of one response, as a size in a time
    "in_minority",  # whether a node outside the primary view serves the pages
    "cost",  # measure of the cost of a request
)
BOUNDED = ("server_resource", "num_requests", "num_bytes")  # any operator, upper bounds can be hard
OPERATORS = {  # of all others
    "available": "=", "response_time": "<", "lifetime": "=", "channel": "=", "in_minority": "=", "cost": "=",
}  # fmt: skip
WORDS = {
    "server_resource": ("equal", "rest"),
    "available": ("always",),
    "in_minority": ("serve", "deny"),
    "cost": ("time", "bytes", "requests"),
}
WORDS_ONLY = ("available", "in_minority", "cost")  # no numbers
