"""Images with several labels each: fine-tuning after Krähenbühl et al., and average precision."""
