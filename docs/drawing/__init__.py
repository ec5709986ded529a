"""Drawings as SVG: diagrams of the documents, timelines and curves. Their colours follow the page's theme."""
