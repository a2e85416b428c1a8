"""Pictures with Matplotlib: results in, figures out."""
