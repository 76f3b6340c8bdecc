"""Where fields live: grids, the spaces of several fields on them, stencils and spectra."""
