"""Layers over sequences: embeddings, recurrent networks, attention, transformers."""
