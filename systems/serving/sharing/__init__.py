"""One machine shared out: prompts beside decode, and other work beside requests."""
