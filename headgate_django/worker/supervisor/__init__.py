"""The parent of the worker processes: it starts, watches, replaces and stops them. It never opens a connection."""
