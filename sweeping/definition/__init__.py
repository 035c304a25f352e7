"""A sweep file: its axes, its expressions, the points of its grid."""
