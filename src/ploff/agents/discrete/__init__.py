"""The methods for discrete actions: a score for each action, and the best of those that are legal."""
