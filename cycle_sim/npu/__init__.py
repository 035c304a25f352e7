"""The NPU's parts by themselves: systolic arrays, vector units, a scratchpad of two halves; exact cycles, no memory."""
