"""The compiled kernels. Each takes its channel's state as one NamedTuple of int64 arrays: few, as each call passes all.

Columns and places in them have names in capitals: `ch.bank[b, f.ROW]`.
"""
