"""What a launch would cost on a described GPU, from what it did: see ``docs/model.md``."""
