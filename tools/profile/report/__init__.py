"""The report of a profile: one HTML file that needs no network."""

from .page import write_report

__all__ = ["write_report"]
