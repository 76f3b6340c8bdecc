"""`ns.invert`: the method that fits the problem, and what it says of bad data."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

import neuralsolver as ns
from neuralsolver.errors import InvalidInput
from neuralsolver.inversion import invert_field
from neuralsolver.inversion.corrector import Corrector
from neuralsolver.inversion.forward import HeadModel
from neuralsolver.inversion.invert_field import default_method
from neuralsolver.inversion.priors import Prior
from neuralsolver.reference.posterior import GaussianPosterior, LinearMap, field_prior
from paper.inversion_training import set_moments

PLACES = np.random.default_rng(3).uniform(0.1, 0.9, (12, 2))


def observed(
    equation: ns.Darcy, n: int = 24, noise: float = 0.01, wrong: float = 0.0, seed: int = 1
) -> ns.Observed:
    a = Prior("two-phase", equation.low, equation.high).draw(np.random.default_rng(seed), n)[0]
    heads = HeadModel(PLACES, n, equation.source).heads(a[None])[0]
    heads[0] += wrong
    return ns.Observed(equation, n, ns.Sensors(PLACES, "solution", heads, noise))


@pytest.fixture
def network(monkeypatch, tmp_path):
    """An untrained network in the place of the shipped one."""
    torch.manual_seed(0)
    fresh = Corrector((8, 8))
    set_moments(fresh)
    monkeypatch.setattr(invert_field, "WEIGHTS", tmp_path)
    monkeypatch.setattr(invert_field, "shipped_corrector", fresh.eval)
    return fresh


def test_the_problem_chooses_the_method(network, monkeypatch, tmp_path):
    sources = ns.Sensors(PLACES, "source", np.ones(12))
    assert default_method(ns.Observed(ns.Poisson(), 24, sources)) == "exact"
    assert default_method(ns.Observed(ns.Helmholtz(), 24, sources)) == "exact"
    assert default_method(observed(ns.Darcy())) == "ens"
    assert default_method(observed(ns.Darcy(low=30.0, high=120.0))) == "ens"
    assert default_method(observed(ns.Darcy(high=30.0)), "channels") == "ens"
    assert default_method(observed(ns.Darcy()), "log-normal") == "gauss-newton"
    assert default_method(observed(ns.Darcy(high=60.0))) == "gauss-newton"
    assert default_method(observed(ns.Darcy(high=60.0)), "channels") == "es-mda"
    cores = ns.Sensors(PLACES, "permeability", np.full(12, 3.0))
    assert default_method(ns.Observed(ns.Darcy(), 24, cores)) == "exact"
    monkeypatch.setattr(invert_field, "WEIGHTS", tmp_path / "none")
    assert default_method(observed(ns.Darcy())) == "gauss-newton"


def test_the_answer_does_not_depend_on_the_unit_of_the_permeability(network):
    """K in m²/day, recharge in m/day and a length of 1200 m give the heads of the unit square."""
    plain = ns.invert(observed(ns.Darcy()), samples=2)
    scaled = ns.invert(observed(ns.Darcy(source=1000.0, low=30.0, high=120.0)), samples=2)
    torch.testing.assert_close(scaled.inputs, 10 * plain.inputs)
    torch.testing.assert_close(scaled.mean[0], 10 * plain.mean[0], rtol=1e-4, atol=1e-4)
    probability = plain.probability
    assert probability is not None
    assert 0 <= float(probability.min()) <= float(probability.max()) <= 1


@pytest.mark.parametrize("count", [0, 1, 2, 3])
@pytest.mark.parametrize("method", ["ens", "es-mda", "gauss-newton"])
def test_few_sensors_are_enough(network, method, count):
    sensors = ns.Sensors(PLACES[:count], "solution", np.full(count, 0.4), 0.05)
    samples = ns.invert(ns.Observed(ns.Darcy(), 16, sensors), method, 3)
    assert bool(samples.inputs.isfinite().all())
    assert float(samples.relative_residual.max()) < 1e-10


def test_cores_are_kept_and_checked(network):
    places = np.array([[0.2, 0.2], [0.6, 0.6], [0.4, 0.8]])
    fields = ["permeability", "permeability", "solution"]
    sensors = ns.Sensors(places, fields, [12.0, 3.0, 0.5], 0.01)
    for method in ("ens", "es-mda", "gauss-newton"):
        samples = ns.invert(ns.Observed(ns.Darcy(), 21, sensors), method, 3)
        assert bool((samples.inputs[:, 0, 4, 4] == 12.0).all())
        assert bool((samples.inputs[:, 0, 12, 12] == 3.0).all())
    wrong = ns.Sensors(places, fields, [7.0, 3.0, 0.5], 0.01)
    with pytest.raises(InvalidInput, match="sensor 1: expected a permeability of one of the ph"):
        ns.invert(ns.Observed(ns.Darcy(), 21, wrong), "es-mda", 3)


def test_data_that_nothing_explains_are_named():
    good = ns.invert(observed(ns.Darcy(), noise=0.05), "gauss-newton", 8)
    assert not good.notes["warnings"]
    bad = ns.invert(observed(ns.Darcy(), noise=1e-3, wrong=0.4), "gauss-newton", 8)
    assert "times the noise" in bad.notes["warnings"][0]
    assert "warning" in bad.summary()
    with pytest.raises(InvalidInput, match=r"sensor 1: expected a head between 0 and 2\.653"):
        ns.invert(observed(ns.Darcy(), noise=1e-3, wrong=9.0), "gauss-newton", 8)
    still = ns.Sensors(PLACES, "solution", np.zeros(12), 0.01)
    nothing = ns.invert(ns.Observed(ns.Darcy(source=0.0), 16, still), "gauss-newton", 2)
    assert bool(nothing.inputs.isfinite().all())


def test_what_the_network_was_not_trained_for_is_said(network):
    far = ns.invert(observed(ns.Darcy(high=60.0)), "ens", 2)
    assert "good for high/low of 4 to 10, not 20" in far.notes["warnings"][0]
    with pytest.raises(InvalidInput, match="prior: expected one of two-phase"):
        ns.invert(observed(ns.Darcy()), "ens", 2, prior="log-normal")
    with pytest.raises(InvalidInput, match="stencil: expected flux"):
        ns.invert(observed(ns.Darcy(stencil="wide")), "ens", 2)


def test_the_picture_has_wells_probability_samples_and_misfit(network, tmp_path):
    samples = ns.invert(observed(ns.Darcy()), samples=4)
    figure = samples.plot(str(tmp_path / "k.png"), length=1200.0)
    titles = [axis.get_title() for axis in figure.axes]
    for title in ("permeability: mean", "probability of 12", "sample 3", "mean misfit / noise"):
        assert title in titles
    assert figure.axes[0].get_xticklabels()[1].get_text() == "1200"
    assert "prior two-phase" in samples.summary()
    assert "1 is ideal" in samples.summary()


def test_amplitude_and_length_are_fitted_to_the_sensors():
    """Sources 50 times larger and rougher than the equation's are recognised as such."""
    rng = np.random.default_rng(5)
    prior = field_prior(32, 50.0 * ns.Poisson().source_amplitude, True, 12.0)
    field = prior.draw(rng, 1)[0]
    places = np.stack(np.divmod(rng.choice(32 * 32, 120, replace=False), 32), 1)
    values = field[places[:, 0], places[:, 1]]
    seen = ns.Observed(ns.Poisson(), 32, ns.Sensors(places / 31, "source", values))
    fitted = ns.invert(seen, samples=4, prior="fitted")
    assert 7 < fitted.notes["inverse_length"] < 20
    assert 25 < fitted.notes["amplitude"] < 100
    plain = ns.invert(seen, samples=4)
    spread = [float(s.deviation[0].square().mean().sqrt()) for s in (fitted, plain)]
    missed = float((fitted.mean[0] - torch.from_numpy(field)).square().mean().sqrt())
    assert 0.5 < spread[0] / missed < 2  # an error bar of the right size, where the other has none
    assert spread[1] < 0.1 * missed
    with pytest.raises(InvalidInput, match="prior: expected fitted with the exact"):
        ns.invert(seen, "spline", prior="fitted")
    few = ns.Sensors(places[:4] / 31, "source", values[:4])
    with pytest.raises(InvalidInput, match="at least 8 to fit a prior to"):
        ns.invert(ns.Observed(ns.Poisson(), 32, few), prior="fitted")


def test_the_likelihood_is_that_of_a_gaussian():
    """Against scipy's density, with noise and sensors of both fields."""
    rng = np.random.default_rng(6)
    of_solution = np.arange(6) % 2 == 1
    map_ = LinearMap(1.0, 0.0)
    both = [
        GaussianPosterior(20, s, map_, PLACES[:6], of_solution, np.full(6, 0.3)) for s in (1.0, 4.0)
    ]
    values = rng.standard_normal(6)
    exact = [
        multivariate_normal(np.zeros(6), p.covariance() + 0.09 * np.eye(6)).logpdf(values)
        for p in both
    ]
    ours = [p.log_likelihood(values) for p in both]
    np.testing.assert_allclose(ours[1] - ours[0], exact[1] - exact[0], rtol=1e-6)


def test_no_wells_have_no_misfit_and_one_is_called_one(tmp_path):
    none = ns.Sensors(np.zeros((0, 2)), "solution", [])
    samples = ns.invert(ns.Observed(ns.Darcy(), 16, none), "es-mda", 3)
    assert "misfit" not in samples.summary()
    assert "from 0 sensors" in samples.summary()
    samples.plot(str(tmp_path / "x.png"))
    one = ns.Sensors([[0.5, 0.5]], "source", [1.0])
    assert "from 1 sensor:" in ns.invert(ns.Observed(ns.Poisson(), 16, one), samples=2).summary()


def test_permeabilities_over_many_decades_are_solved():
    from neuralsolver.inversion.forward import solve_heads

    rng = np.random.default_rng(0)
    a = np.exp(30 * rng.standard_normal((32, 32)))  # the banded Cholesky fails here
    assert np.isfinite(solve_heads(a)).all()
