"""A world for the group stack: virtual network, clock and disk, driven by one seed, that tries to break it."""
