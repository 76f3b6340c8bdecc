"""Heads in wells: derivatives, priors, classical methods, and what the corrector reads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import neuralsolver as ns
from neuralsolver.inversion.chain import gelman_rubin, run_chains
from neuralsolver.inversion.corrector import KINDS, Corrector
from neuralsolver.inversion.ens import (
    correct,
    fit_heads,
    network_probability,
    network_samples,
    probability,
    sample_phases,
)
from neuralsolver.inversion.ensemble import gaspari_cohn, smooth_ensemble
from neuralsolver.inversion.forward import HeadModel, WellData, embed, interpolation, solve_heads
from neuralsolver.inversion.gauss_newton import LatentModel, gauss_newton_samples, total_variation
from neuralsolver.inversion.invert_field import well_data
from neuralsolver.inversion.mismatch import GRID, SIGNALS, signal_channels
from neuralsolver.inversion.priors import FIELDS, Prior
from neuralsolver.training.checkpoint import Card, load_model, save_model
from paper.inversion_training import (
    RandomWells,
    random_wells,
    set_moments,
    train_inversion,
)


def wells(
    prior: str, n: int = 24, count: int = 20, noise: float = 0.02
) -> tuple[WellData, np.ndarray]:
    rng = np.random.default_rng(5)
    true = Prior(prior).draw(rng, n)[0]
    positions = rng.uniform(0.1, 0.9, (count, 2))
    heads = HeadModel(positions, n, 100.0).heads(true[None])[0]
    deviation = noise * np.sqrt(np.mean(heads**2))
    heads += deviation * rng.standard_normal(count)
    known = np.zeros((0, 2), dtype=np.int64)
    deviations = np.full(count, deviation)
    return WellData(Prior(prior), n, 100.0, positions, heads, deviations, known, np.zeros(0)), true


def test_heads_satisfy_the_library_s_equation():
    a = Prior("two-phase").draw(np.random.default_rng(1), 33)
    u = embed(solve_heads(a[0], 100.0).reshape(1, -1), 33)
    problem = ns.Problem(ns.Darcy(), torch.from_numpy(a)[:, None])
    residual = problem.residual(torch.from_numpy(u)[:, None])
    assert float(residual.abs().max()) < 1e-10 * 100


def test_sensitivities_are_the_derivatives_of_the_heads():
    rng = np.random.default_rng(2)
    model = HeadModel(rng.random((7, 2)), 20, 100.0)
    a = Prior("log-normal").draw(rng, 20)[0]
    change = rng.standard_normal(a.shape)
    _, forms = model.sensitivities(a)
    near = [model.heads((a + step * change)[None])[0] for step in (1e-6, -1e-6)]
    exact = np.tensordot(forms, change, 2)
    np.testing.assert_allclose((near[0] - near[1]) / 2e-6, exact, rtol=1e-5, atol=1e-8)
    _, gradient = model.gradient(a, np.arange(7.0), np.full(7, 2.0))
    np.testing.assert_allclose(gradient, np.tensordot(2.0 * np.arange(7.0), forms, 1), atol=1e-12)


@pytest.mark.parametrize("name", FIELDS)
def test_priors_are_functions_of_their_normals(name):
    prior = Prior(name)
    normals = np.random.default_rng(3).standard_normal((4, prior.dimension(40)))
    fields = prior.fields(normals, 40)
    np.testing.assert_array_equal(fields, prior.fields(normals.copy(), 40))
    assert fields.shape == (4, 40, 40)
    if prior.binary:
        assert set(np.unique(fields)) == {3.0, 12.0}
    assert len({field.tobytes() for field in fields}) == 4


def test_an_ensemble_smoother_is_kriging_where_everything_is_linear():
    """One assimilation of a linear model with many members has the mean of the exact posterior."""

    class Linear(HeadModel):
        def heads(self, permeability):
            return np.log(permeability).reshape(len(permeability), -1) @ self.matrix.T

    data, _ = wells("log-normal", 12, 3)
    model = Linear(data.positions, 12, 100.0)
    model.matrix = np.random.default_rng(0).standard_normal((3, 144)) / 50
    object.__setattr__(data, "model", model)
    object.__setattr__(data, "heads", np.array([0.2, -0.1, 0.3]) + model.matrix.sum(1) * np.log(6))
    members = np.log(smooth_ensemble(data, 20_000, 1, seed=1)).reshape(20_000, -1)
    drawn = np.log(Prior("log-normal").draw(np.random.default_rng(9), 12, 20_000)).reshape(
        20_000, -1
    )
    covariance = np.cov(drawn.T)
    gram = model.matrix @ covariance @ model.matrix.T + np.diag(data.safe_noise**2)
    gain = covariance @ model.matrix.T @ np.linalg.inv(gram)
    exact = np.log(6) + gain @ (data.heads - model.matrix.sum(1) * np.log(6))
    assert np.abs(members.mean(0) - exact).max() < 0.05


def test_tapers_end_at_the_radius():
    values = gaspari_cohn(np.array([0.0, 0.25, 0.5, 0.75, 1.0, 2.0]))
    assert values[0] == 1.0
    assert (np.diff(values) <= 0).all()
    assert abs(values[-1]) < 1e-12


@pytest.mark.parametrize("prior", ["log-normal", "two-phase"])
def test_gauss_newton_derivative_and_fit(prior):
    data, _true = wells(prior)
    model = LatentModel(data)
    rng = np.random.default_rng(1)
    normals, change = rng.standard_normal((2, data.prior.dimension(24)))
    near = [model.heads(normals + step * change) for step in (1e-6, -1e-6)]
    _, jacobian = model.linearise(normals)
    np.testing.assert_allclose((near[0] - near[1]) / 2e-6, jacobian @ change, rtol=1e-4, atol=1e-7)
    fields = gauss_newton_samples(data, 8, seed=2, sampling="laplace")
    drawn = Prior(prior).draw(rng, 24, 8)
    assert np.median(data.misfit(fields)) < 0.3 * np.median(data.misfit(drawn))


def test_total_variation_fits_and_is_one_field():
    data, true = wells("two-phase")
    field = total_variation(data)
    assert field.shape == true.shape
    assert data.misfit(field[None])[0] < 1.5
    assert np.mean((field > 6) != (true > 6)) < np.mean(true > 6)


def test_a_chain_on_a_flat_likelihood_is_the_prior():
    data, _ = wells("ellipses", 16, 4)
    object.__setattr__(data, "noise", np.full(4, 1e6))
    found = run_chains(data, 400, rungs=2, keep=100, seed=3)
    drawn = Prior("ellipses").draw(np.random.default_rng(4), 16, 400)
    assert abs((found.samples > 6).mean() - (drawn > 6).mean()) < 0.08
    assert found.solves == 2 * 2 * 401


def test_r_hat_tells_chains_apart():
    rng = np.random.default_rng(0)
    same = rng.standard_normal((2, 400))
    assert gelman_rubin(same) < 1.05
    assert gelman_rubin(same + np.array([[0.0], [3.0]])) > 1.5


@pytest.fixture(scope="module")
def network() -> Corrector:
    torch.manual_seed(0)
    fresh = Corrector((8, 8))
    set_moments(fresh)
    torch.nn.init.normal_(fresh.projection.weight, std=0.01)
    return fresh.eval()


@pytest.mark.parametrize("signal", SIGNALS)
def test_what_the_network_reads_is_finite_and_turns_with_the_square(network, signal):
    rng = np.random.default_rng(8)
    problem, _ = random_wells(network, Prior("two-phase"), rng, 12, 0.01)
    logit = torch.from_numpy(rng.standard_normal((GRID, GRID))).float()
    nothing = torch.zeros(GRID, GRID)
    fields, scalars = signal_channels(problem, logit, nothing, nothing, signal)
    assert bool(fields.isfinite().all())
    assert bool(scalars.isfinite().all())
    mirrored = replace(problem.data, positions=problem.data.positions[:, ::-1].copy())
    problem = replace(problem, data=mirrored)
    turned, _ = signal_channels(problem, logit.T, nothing, nothing, signal)
    torch.testing.assert_close(turned, fields.transpose(1, 2), atol=2e-2, rtol=2e-2)


def test_the_kalman_form_lowers_the_mismatch(network):
    problem, _ = random_wells(network, Prior("two-phase"), np.random.default_rng(8), 30, 0.01)
    nothing = torch.zeros(GRID, GRID)
    start = torch.full((GRID, GRID), 0.5)
    fields, _ = signal_channels(problem, nothing, nothing, nothing)

    def missed(p):
        a = problem.permeability(p.double().numpy())
        return float(problem.data.misfit(a[None])[0])

    assert missed((start + fields[4] / 2).clamp(0, 1)) < 0.5 * missed(start)


def test_known_cells_keep_their_phase(network):
    problem, true = random_wells(network, Prior("channels"), np.random.default_rng(1), 10, 0.01)
    known = torch.zeros(1, GRID, GRID)
    known[0, 3:9, 5] = 1.0
    value = torch.from_numpy(true).float()[None]
    logit = correct(network, [problem], torch.zeros(1, GRID, GRID), known, value)
    assert bool(((logit > 0).float() == value)[known > 0].all())


def test_samples_follow_the_probability(network):
    problem, _ = random_wells(network, Prior("two-phase"), np.random.default_rng(1), 4, 0.05)
    certain = torch.full((GRID, GRID), 8.0)
    drawn = sample_phases(network, problem, certain, 2, seed=0)
    assert set(drawn.unique().tolist()) <= {0.0, 1.0}
    assert float(drawn.mean()) > 0.5
    again = sample_phases(network, problem, certain, 2, seed=0)
    assert torch.equal(drawn, again)


def test_the_edges_of_a_sample_move_towards_the_heads(network):
    problem, true = random_wells(network, Prior("two-phase"), np.random.default_rng(2), 40, 0.01)
    nothing = torch.zeros(GRID, GRID)
    shifted = torch.from_numpy(np.roll(true, 3, 0)).float()
    fitted = fit_heads(problem, shifted, nothing, nothing)

    def missed(phase):
        return float(problem.data.misfit(problem.permeability(phase.double().numpy())[None])[0])

    assert missed(fitted) < 0.7 * missed(shifted)
    known = torch.zeros(GRID, GRID)
    known[10:12] = 1.0
    kept = fit_heads(problem, shifted, known, 1 - shifted)
    assert torch.equal(kept[10:12], 1 - shifted[10:12])


def test_weights_survive_a_file(network, tmp_path):
    save_model(tmp_path, network, Card(ns.Darcy(), GRID, {"training": {"minutes": 0}}), half=True)
    loaded = load_model(tmp_path)[0]
    problem, _ = random_wells(network, Prior("ellipses"), np.random.default_rng(1), 6, 0.01)
    first, second = (probability(each, problem, steps=1) for each in (network, loaded))
    torch.testing.assert_close(first, second, atol=0.05, rtol=0.05)


def test_a_finer_grid_uses_the_network_s_own(network):
    data, _ = wells("two-phase", 80, 10)
    assert network_probability(network, data).shape == (80, 80)
    fields, _marginal = network_samples(network, data, 1, 0)
    assert set(np.unique(fields)) <= {3.0, 12.0}
    np.testing.assert_allclose(interpolation(64, 80).sum(1), 1.0)


def test_wells_and_cores_are_told_apart():
    sensors = ns.Sensors(
        [[0.5, 0.5], [0.25, 0.75]], ["solution", "permeability"], [0.3, 12.0], [0.1, 0]
    )
    data = well_data(ns.Observed(ns.Darcy(), 33, sensors))
    assert (len(data.heads), data.known.tolist()) == (1, [[8, 24]])
    np.testing.assert_allclose(data.noise, [0.1])
    assert KINDS == ("two-phase", "channels", "ellipses")


def test_training_goes_on_where_it_was_interrupted(network, tmp_path):
    """Batches are functions of seed and number, and no state is unpickled."""
    source = RandomWells(network, ("two-phase", "ellipses"))
    first, again = source.draw(3, 5, range(2)), source.draw(3, 5, range(2))
    assert torch.equal(first.phases, again.phases)
    assert first.steps == again.steps
    part = source.draw(3, 5, range(1, 2))
    assert torch.equal(first.phases[1:], part.phases)
    trained = train_inversion(tmp_path, 1e-4, widths=(8, 8), batch_size=2)
    assert {path.name for path in (tmp_path / "run").iterdir()} >= {"state.safetensors"}
    loaded, card = load_model(tmp_path)
    assert card.record["training"]["batches"] >= 1
    assert loaded.widths == trained.widths
    later = train_inversion(tmp_path / "later", 1e-6, start=tmp_path, widths=(8, 8), batch_size=2)
    near = zip(loaded.parameters(), later.parameters(), strict=True)
    assert max(float((a - b).detach().abs().max()) for a, b in near) < 0.01
