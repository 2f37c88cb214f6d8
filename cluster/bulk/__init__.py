"""Atomic multicast transport for large content: sent once, delivered by all members in one order, or by none.

Paper: Freier and Marzullo, MTP, an atomic multicast transport protocol, TR 90-1141, 1990.
"""
