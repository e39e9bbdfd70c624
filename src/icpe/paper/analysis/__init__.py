"""Computations of the paper that need more than trained runs: fronts of losses, gradients, and the theory."""
