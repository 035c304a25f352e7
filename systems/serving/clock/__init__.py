"""The clock over iterations: replicas, pools and the events between them, in whole ticks."""
