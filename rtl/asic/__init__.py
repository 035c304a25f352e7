"""The datapath of the ASIC: exp, reciprocal, rsqrt, GELU, SiLU, sums, softmax, norms; adders and multipliers only."""
