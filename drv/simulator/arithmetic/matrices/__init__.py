"""Matrix instructions: what they compute, and where the elements stand in the registers of a warp."""
