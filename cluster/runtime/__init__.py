"""The group on real machines: sockets, keys, timers and disks around the pure stack, under asyncio."""
