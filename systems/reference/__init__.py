"""Published simulators, where they depart from the model: what each does otherwise, beside the physics."""
