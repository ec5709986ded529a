"""Process groups: how ranks meet, what a group is, and the operations its ranks call together."""
