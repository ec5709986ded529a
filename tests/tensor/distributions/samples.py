"""A distribution of each class, as a function of a library: this one or PyTorch."""

from __future__ import annotations

from typing import Any

Args = dict[str, Any]

#: Keyword arguments by class; a list becomes a tensor.
PARAMETERS: dict[str, Args] = {
    "Bernoulli": {"probs": [0.2, 0.7, 0.5]},
    "Beta": {"concentration1": [0.5, 2.0, 3.0], "concentration0": [0.7, 1.5, 5.0]},
    "Binomial": {"total_count": 7, "probs": [0.2, 0.7, 0.5]},
    "Categorical": {"probs": [[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]]},
    "Cauchy": {"loc": [0.5, -1.0, 2.0], "scale": [0.5, 1.0, 3.0]},
    "Chi2": {"df": [0.5, 3.0, 8.0]},
    "ContinuousBernoulli": {"probs": [0.2, 0.7, 0.4999]},
    "Dirichlet": {"concentration": [[0.5, 2.0, 3.0], [1.2, 1.5, 4.0]]},
    "Exponential": {"rate": [0.5, 2.0, 3.0]},
    "FisherSnedecor": {"df1": [1.0, 4.0, 9.0], "df2": [6.0, 7.0, 12.0]},
    "Gamma": {"concentration": [0.5, 2.0, 7.0], "rate": [0.7, 1.5, 5.0]},
    "GeneralizedPareto": {
        "loc": [0.5, 0.0, 1.0],
        "scale": [0.5, 1.0, 3.0],
        "concentration": [0.2, -0.3, 0.1],
    },
    "Geometric": {"probs": [0.2, 0.7, 0.5]},
    "Gumbel": {"loc": [0.5, -1.0, 2.0], "scale": [0.5, 1.0, 3.0]},
    "HalfCauchy": {"scale": [0.5, 1.0, 3.0]},
    "HalfNormal": {"scale": [0.5, 1.0, 3.0]},
    "InverseGamma": {"concentration": [3.5, 5.0, 7.0], "rate": [0.7, 1.5, 5.0]},
    "Kumaraswamy": {"concentration1": [1.5, 2.0, 3.0], "concentration0": [1.7, 1.5, 5.0]},
    "LKJCholesky": {"dim": 3, "concentration": [0.8, 2.0]},
    "Laplace": {"loc": [0.5, -1.0, 2.0], "scale": [0.5, 1.0, 3.0]},
    "LogNormal": {"loc": [0.5, -1.0, 0.2], "scale": [0.5, 0.3, 0.7]},
    "LogisticNormal": {"loc": [0.5, -1.0, 2.0], "scale": [0.5, 1.0, 0.7]},
    "LowRankMultivariateNormal": {
        "loc": [0.5, -1.0, 2.0],
        "cov_factor": [[1.0, 0.5], [0.3, -0.5], [0.2, 2.0]],
        "cov_diag": [0.5, 1.0, 0.7],
    },
    "Multinomial": {"total_count": 5, "probs": [[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]]},
    "MultivariateNormal": {"loc": [[0.5, -1.0], [1.0, 2.0]], "covariance_matrix": [[2.0, 0.5], [0.5, 1.0]]},
    "NegativeBinomial": {"total_count": 4, "probs": [0.2, 0.7, 0.5]},
    "Normal": {"loc": [0.5, -1.0, 2.0], "scale": [0.5, 1.0, 3.0]},
    "OneHotCategorical": {"logits": [[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]]},
    "OneHotCategoricalStraightThrough": {"probs": [[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]]},
    "Pareto": {"scale": [0.5, 1.0, 3.0], "alpha": [5.0, 6.0, 8.0]},
    "Poisson": {"rate": [0.5, 2.0, 9.0]},
    "RelaxedBernoulli": {"temperature": [0.7], "probs": [0.2, 0.7, 0.5]},
    "RelaxedOneHotCategorical": {"temperature": [0.7], "logits": [[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]]},
    "StudentT": {"df": [3.5, 7.0, 12.0], "loc": [0.5, -1.0, 2.0], "scale": [0.5, 1.0, 3.0]},
    "Uniform": {"low": [0.5, -1.0, 2.0], "high": [1.5, 1.0, 3.0]},
    "VonMises": {"loc": [0.5, -1.0, 2.0], "concentration": [0.5, 1.0, 9.0]},
    "Weibull": {"scale": [0.5, 1.0, 3.0], "concentration": [1.5, 2.0, 0.8]},
    "Wishart": {"df": [4.0, 6.5], "covariance_matrix": [[2.0, 0.5], [0.5, 1.0]]},
}


def made(library: Any, name: str, changes: Args | None = None, **options: Any) -> tuple[Any, dict[str, Any]]:
    """The distribution, and its parameters by name: leaves with gradients, on the CPU unless ``device`` says."""
    # In float64 PyTorch's fails: it compares with a float32 constant.
    dtype = library.float32 if name == "GeneralizedPareto" else library.float64
    arguments = {
        key: library.tensor(value, dtype=dtype, requires_grad=True, **options)
        if isinstance(value, list)
        else value
        for key, value in {**PARAMETERS[name], **(changes or {})}.items()
    }
    parameters = {key: value for key, value in arguments.items() if isinstance(value, library.Tensor)}
    return getattr(library.distributions, name)(**arguments), parameters
