"""Driver-level runtime: devices, streams, memory, modules and library bindings."""
