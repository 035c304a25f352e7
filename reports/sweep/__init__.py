"""The report of a sweep: Pareto front, parallel coordinates, heat map, sensitivities, table."""
