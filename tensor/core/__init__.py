"""What a tensor is: storage, layout, dtype rules, device state, copies. Nothing here records or computes."""
