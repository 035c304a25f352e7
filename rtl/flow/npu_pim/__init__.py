"""A PIM channel's gates against the cycle model, on random traffic."""
