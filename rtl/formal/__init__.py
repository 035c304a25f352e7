"""What is proved of the sequencer, and the questions to a solver."""
