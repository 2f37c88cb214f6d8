"""Runtime of the multicast transport: datagrams, spool and the automata on the event loop."""
