"""Reading and writing at indices and masks, sorting, searching, and embeddings."""
