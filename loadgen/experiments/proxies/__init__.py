"""Other servers for comparison, run as proxies in front of a slow server. Only installed ones are used."""
