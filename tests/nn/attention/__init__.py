"""``nn.attention``."""
