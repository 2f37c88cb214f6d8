"""Tests of the runtime: real sockets, real processes."""
