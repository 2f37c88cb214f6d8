"""Deterministic simulator of the group stack: virtual network, clock and disks, with faults drawn from one seed."""
