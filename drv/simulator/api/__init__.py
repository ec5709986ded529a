"""The calls of the driver API, by subject: the files have the names of the chapters of its reference."""
