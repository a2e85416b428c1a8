"""What every part uses: errors, configurations, files, progress, cores."""
