"""Random numbers through the blocks of arithmetic, and what their models say."""
