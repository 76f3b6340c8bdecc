"""From a few sensors to fields: samplers of pairs (input, solution)."""
