"""What an answer is worth: metrics of solutions, and how far a residual can be trusted."""
