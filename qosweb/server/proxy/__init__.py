"""Reverse proxy: forwards requests to an upstream server and to other nodes."""
