"""The page of `pimloom compare`."""
