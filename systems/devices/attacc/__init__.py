"""AttAcc: GPUs, and beside them stacks of HBM that compute the attention of decode steps."""
