"""What every training uses: optimisers, devices."""
