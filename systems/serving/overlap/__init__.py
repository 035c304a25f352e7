"""An iteration whose operators overlap: parts of a batch over compute, memory and link of one machine."""
