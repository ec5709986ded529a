"""Driver calls about what is outside of CUDA: graphics, memory and semaphores of others, links between machines."""
