"""What the code of a kernel is on the hardware: its instructions, registers and lines, from the assembler's own output."""
