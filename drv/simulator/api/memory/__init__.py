"""Driver calls about memory: allocation, pools, virtual memory, pointers, copies, fills."""
