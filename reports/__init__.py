"""Paper studies, pages, tables and figures: they show what systems and sweeps find."""
