"""Paper studies, tables and figures; composes the rooms."""
