"""Runs the protocol stack on real machines: sockets, timers, disks and keys."""
