"""LIBSVM text models: a file comes in, a `Machine` goes out.

    f_ij(z) = sum_s coef_s k(x_s, z) - rho_ij       positive votes for the first label of (i, j)

Plain, gzip or bzip2; c_svc, nu_svc, one_class, epsilon_svr, nu_svr; kernels linear, polynomial, rbf
and sigmoid. `defects` lists everything that is wrong with a file, by the same parser.
"""

from __future__ import annotations

import os

import numpy as np

from kernelite.data.rows.inputs import FloatArray
from kernelite.data.tables.lines import Lines
from kernelite.data.tables.parsing import Defect, Report
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.heads import ClassifierHead, Head, OutlierHead, RegressorHead
from kernelite.machine.kernels import Gaussian, PolynomialKernel, SigmoidKernel
from kernelite.machine.machine import Machine, describe
from kernelite.sources.common import NamedKernel, pairwise_coefficients, polynomial
from kernelite.sources.libsvm_header import Header, read_header
from kernelite.sources.libsvm_vectors import Vectors, read_vectors
from kernelite.support.errors import FileFormatError, UnsupportedModelError

__all__ = ["defects", "read_libsvm"]


def read_libsvm(path: str | os.PathLike[str], /) -> Machine:
    """Read a LIBSVM model file.

    Labels are integers in the order of the file's `label` line. The model's probabilities, if it
    has any, are in the head; labels stay those of the votes, as with svm-predict's `-b 0`.

    Parameters
    ----------
    path : path-like
        A text model, plain or compressed.

    Returns
    -------
    Machine
        Its centers are dense where that takes at most 256 MB and is in proportion to the file,
        else sparse (see `Vectors.rows`).

    Raises
    ------
    FileFormatError
        For the first defect, with its line.
    UnsupportedModelError
        If the kernel is another one, or there is one class only.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> text = '''svm_type epsilon_svr
    ... kernel_type rbf
    ... gamma 0.5
    ... nr_class 2
    ... total_sv 1
    ... rho -0.25
    ... SV
    ... 2 1:1 3:-1
    ... '''
    >>> with TemporaryDirectory() as folder:
    ...     name = os.path.join(folder, "bump.model")
    ...     with open(name, "w") as file:
    ...         _ = file.write(text)
    ...     source = read_libsvm(name)
    >>> source.description
    'LIBSVM epsilon_svr, 1 support vector, gamma 0.5'
    >>> source.expansion.scores([[1.0, 0.0, -1.0]])
    array([[2.25]])
    """
    with Lines(path) as lines:
        header = read_header(lines)
        assert header is not None  # or a defect has been raised
        for _, problem in _refusals(header):
            raise UnsupportedModelError(f"{os.fspath(path)}: {problem}.")
        vectors = read_vectors(lines, header.n_coefficients, header.total_sv)
    expansion = _expansion(header, vectors)
    head = _head(header)
    return Machine(
        expansion,
        head,
        describe(f"LIBSVM {header.svm_type}", expansion),
        "libsvm",
        str(header.svm_type),
        width_is_open=True,
    )


def defects(path: str | os.PathLike[str], /) -> list[Defect]:
    """Everything that is wrong with a LIBSVM model file; of a support vector's line, the first.

    Parameters
    ----------
    path : path-like
        A text model, plain or compressed.

    Returns
    -------
    list of Defect
        Sorted by line, those of the whole file first; empty if the file can be used.

    Examples
    --------
    >>> defects("no/such.model")[0].problem
    'there is no such file'
    """
    found: list[Defect] = []
    report: Report = found.append
    try:
        with Lines(path, report=report) as lines:
            header = read_header(lines)
            if header is not None:
                found += [Defect(line, None, problem) for line, problem in _refusals(header)]
                read_vectors(lines, header.n_coefficients, header.total_sv)
    except FileFormatError as error:  # it could not be opened
        found.append(Defect(error.line, None, error.problem))
    return sorted(found, key=lambda defect: defect.line or 0)


def _refusals(header: Header) -> list[tuple[int, str]]:
    """Sound files that cannot be served: line and reason."""
    refusals = []
    if header.kernel_type == "precomputed":
        problem = "kernel_type `precomputed` is not served, since the file holds no vectors; train "
        refusals.append((header.lines["kernel_type"], problem + "with -t 0, 1, 2 or 3"))
    degree = header.degree
    if header.kernel_type == "polynomial" and degree is not None and not 1 <= degree <= 100:
        problem = f"degree `{degree}` of the polynomial kernel is not served, accepted are 1 to 100"
        refusals.append((header.lines["degree"], problem))
    if header.nr_class == 1:
        problem = "the model knows one class only, so there is nothing to predict"
        refusals.append((header.lines["nr_class"], problem))
    return refusals


def _expansion(header: Header, vectors: Vectors) -> KernelExpansion:
    coefficients: FloatArray = vectors.coefficients
    if header.is_classifier:
        coefficients = pairwise_coefficients(coefficients, header.nr_sv)
    return _kernel(header).expansion(vectors.rows(), coefficients, -np.array(header.rho))


def _kernel(header: Header) -> NamedKernel:
    if header.kernel_type == "linear":
        return NamedKernel(PolynomialKernel(1))
    assert header.gamma is not None  # the header's checks saw to it
    if header.kernel_type == "sigmoid":
        return NamedKernel(SigmoidKernel(header.gamma, header.coef0))
    if header.kernel_type == "polynomial":
        assert header.degree is not None
        return polynomial(header.degree, header.gamma, header.coef0, "LIBSVM model")
    return NamedKernel(Gaussian(header.gamma))


def _head(header: Header) -> Head:
    if header.is_classifier:
        platt = bool(header.prob_a)
        return ClassifierHead(
            np.array(header.label, dtype=np.int64),
            first_positive=True,
            platt_a=np.array(header.prob_a) if platt else None,
            platt_b=np.array(header.prob_b) if platt else None,
        )
    if header.svm_type == "one_class":
        marks = np.array(header.density_marks) if header.density_marks else None
        return OutlierHead(offset=header.rho[0], density_marks=marks)
    return RegressorHead(noise_scale=header.prob_a[0] if header.prob_a else None)
