"""Pictures: results in, Matplotlib figures out; nothing here computes what it shows."""
