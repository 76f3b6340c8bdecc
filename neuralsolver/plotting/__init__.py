"""Pictures of problems, solutions, samples and datasets."""
