"""Methods that exist only to be compared with: samplers, POSEIDON, minimisers of the residual."""
