"""From a log to a learned pseudometric."""
