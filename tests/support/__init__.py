"""What tests of the running server share: nodes as processes, raw sockets, and waiting on conditions."""
