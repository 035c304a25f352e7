"""Studies of fabrics: what `pimloom fabric` prints."""
