"""AttAcc: the controller of a channel of a stack that computes attention."""
