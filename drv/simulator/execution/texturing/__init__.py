"""Texture and surface instructions."""

from .surfaces import SurfaceAccess
from .texture_access import TextureAccess

__all__ = ["SurfaceAccess", "TextureAccess"]
