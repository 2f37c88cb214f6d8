"""Support for tests of the running server: node processes, raw sockets, and waiting on conditions."""
