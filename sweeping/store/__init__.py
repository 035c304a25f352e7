"""What a sweep keeps: rows, starts, and how it is read again."""
