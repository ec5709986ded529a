"""One process, several devices: batches divided between threads, and transfers of tensors between devices."""
