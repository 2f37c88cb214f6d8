"""The HTTP server of a node: connections, request pipeline, files, proxy, logs and admin port."""
