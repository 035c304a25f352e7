"""The datapath of the ASIC: exp, reciprocal, rsqrt, GELU, sums, softmax, LayerNorm; adders and multipliers only."""
