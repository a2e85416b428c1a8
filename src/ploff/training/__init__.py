"""The training loop, checkpoints and loggers that every learner shares."""
