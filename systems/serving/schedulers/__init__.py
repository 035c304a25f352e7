"""Schedulers of serving programs, a file for each rule: who is in the next iteration with how many tokens."""
