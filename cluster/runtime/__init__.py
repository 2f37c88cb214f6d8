"""The stack on real machines: sockets, timers, disks, keys."""
