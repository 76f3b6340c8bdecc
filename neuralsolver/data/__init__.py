"""Datasets: described, generated once, stored under their fingerprint, read back."""

from neuralsolver.data.dataset import GENERATOR_VERSION, Dataset, DatasetSpec
from neuralsolver.data.formats import export_npz, read
from neuralsolver.data.generation import Generation, generate, run_generation
from neuralsolver.data.store import data_folder, dataset_path, open_dataset

__all__ = [
    "GENERATOR_VERSION",
    "Dataset",
    "DatasetSpec",
    "Generation",
    "data_folder",
    "dataset_path",
    "export_npz",
    "generate",
    "open_dataset",
    "read",
    "run_generation",
]
