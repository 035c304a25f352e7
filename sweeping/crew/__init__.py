"""Who simulates: a cluster of workers, each with processes that simulate one point after the other."""
