"""The HTTP node: sockets, files, logs and signals around the pure parts."""
