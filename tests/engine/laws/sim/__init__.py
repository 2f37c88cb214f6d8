"""Discrete-event simulation of gateways, a law and an application server, in virtual time."""
