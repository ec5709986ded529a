"""Tells what graphroot runs on: ``graphroot info``. Its text is what a report of a problem should have."""
