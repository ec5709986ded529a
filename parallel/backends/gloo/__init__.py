"""Collectives over sockets and shared memory, which need nothing installed."""
