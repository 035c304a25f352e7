"""A placement in characters: a line per row of the cluster's line, a character per ToR."""

from string import ascii_letters as ALPHABET

import numpy as np

from pimloom.systems.fabric.place import Placed

WIDTH = 72  # ToRs side by side, at most
MOST_NODES = 4096  # beyond, no one reads it
FAULTY, IDLE = "x", "."
LETTERS = ALPHABET.replace(FAULTY, "")


def text_lines(placed: Placed) -> list[str]:
    """Letters are groups: the same letter in two rows, the same block of ToRs; x is faulty, a point is idle."""
    job = placed.job
    tors, m = job.rows.tors, job.m
    if job.cluster.nodes > MOST_NODES:
        return [f"{job.cluster.nodes} nodes: too many to draw in text; --csv lists them"]
    signs = np.where(job.healthy, IDLE, FAULTY)
    for chain in placed.placement.chains:
        signs[chain] = LETTERS[int(chain[0]) % tors // m % len(LETTERS)]
    grid = signs.reshape(job.tor_size, tors)
    lines = []
    width = -(-tors // -(-tors // WIDTH))
    width = -(-width // m) * m if -(-width // m) * m <= WIDTH else width  # blocks in one piece
    for first in range(0, tors, width):
        last = min(first + width, tors)
        lines.append(f"ToRs {first} to {last - 1}, one row for each node of a ToR")
        lines += [f"{row:>4} {''.join(grid[row, first:last].tolist())}" for row in range(job.tor_size)]
    return lines
