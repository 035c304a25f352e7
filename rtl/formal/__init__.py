"""What is proved of the sequencer and of the path controller, and the questions to a solver."""
