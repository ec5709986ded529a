"""Public names: those that are missing and what to use instead, and hints where a name or keyword is nearly right."""
