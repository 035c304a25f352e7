"""A design point, what all points share, and the row that it becomes."""
