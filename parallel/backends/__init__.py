"""What carries tensors between ranks: NCCL on devices, Gloo's sockets and MPI through host memory."""
