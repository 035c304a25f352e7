"""What `pimloom fabric` prints."""
