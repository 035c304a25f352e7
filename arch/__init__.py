"""Names, rules, numbers and units; imports nothing of ours."""
