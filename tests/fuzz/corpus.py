"""Small valid files of every format, made by code: what the mutators start from."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.sparse import csr_array, save_npz

import kernelite as kl
from kernelite.store.approxsvm_text import ApproxText, format_text
from kernelite.store.files import dumps
from tests.store.models import HEADS, compiled, with_cells

__all__ = ["ENDINGS", "FORMATS", "TURNS", "Seed", "corpus", "turns", "with_text"]


@dataclass(frozen=True)
class Seed:
    """A valid file and, of a `.kernelite` file, what it answers for `rows_for` its width."""

    data: bytes
    answers: tuple[object, ...] = ()


METHODS = ("predict", "decision_function", "predict_proba", "score_samples", "transform")
ENDINGS = {
    "kernelite": ".kernelite",
    "kernelite, digest renewed": ".kernelite",
    "libsvm model": ".model",
    "libsvm data": ".svm",
    "range": ".range",
    "approxsvm": ".approx",
    "csv": ".csv",
    "npy": ".npy",
    "npz": ".npz",
    "parquet": ".parquet",
    "arrow": ".arrow",
}
"""Format -> the ending of its files."""

TURNS = dict.fromkeys(ENDINGS, 2) | {
    **dict.fromkeys(("kernelite", "libsvm model", "approxsvm", "npy"), 3),
    **dict.fromkeys(("parquet", "arrow"), 1),
}
"""Format -> how often it has its turn: those that are slow to make and read have fewer."""


@cache
def turns(formats: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    """One round: at each place a format, and its how manieth turn that is.

    Examples
    --------
    >>> turns(("npy", "arrow"))
    (('npy', 0), ('arrow', 0), ('npy', 1), ('npy', 2))
    """
    most = max(TURNS[name] for name in formats)
    return tuple((name, turn) for turn in range(most) for name in formats if turn < TURNS[name])


MODEL = b"""svm_type c_svc
kernel_type rbf
gamma 0.5
nr_class 3
total_sv 5
rho 0.1 -0.2 0.3
label 7 -1 3
nr_sv 2 2 1
SV
1 0.5 1:1 3:-0.25
0.25 -0.75 2:1e-3
-1 2 1:0.5 2:0.5 4:1
-0.5 1 4:2
0.5 -1 1:-1 2:3
"""
BINARY = b"""svm_type c_svc
kernel_type polynomial
degree 2
gamma 0.25
coef0 1
nr_class 2
total_sv 3
rho -0.5
label 1 -1
probA -1.5
probB 0.25
nr_sv 2 1
SV
1 1:1 2:0.5
0.5 3:2
-1.5 1:-1 3:0.25
"""
LINEAR = BINARY.replace(b"polynomial\ndegree 2\ngamma 0.25\ncoef0 1\n", b"linear\n")
CUBIC = BINARY.replace(b"degree 2", b"degree 3")
SIGMOID = MODEL.replace(b"rbf\n", b"sigmoid\n").replace(b"gamma 0.5\n", b"gamma 0.5\ncoef0 -1\n")
REGRESSOR = b"""svm_type epsilon_svr
kernel_type rbf
gamma 0.1
nr_class 2
total_sv 2
rho 1.5
SV
3 1:0.5 2:-1
-3 2:2
"""
ONE_CLASS = REGRESSOR.replace(b"epsilon_svr", b"one_class")
DATA = (
    b"+1 1:0.5 3:2\n-1 2:1 4:-3e-5\n+1\n-1 1:7 # why not\n",
    b"1:0.5 2:1\r\n2:0.25\r\n\r\n4:9\r\n",
    b"0.5 1:1 2:2 3:3 4:4\n" * 9,
)
RANGES = (
    b"x\n-1 1\n1 0 4\n2 -3.5 1e6\n4 1 1\n",
    b"y\n-1 1\n0 250\nx\n0 1\n1 0 4\n3 -3 3\n",
)
CSV = (
    b"a,b,c,d,label\n1,2,3,4,yes\n0.5,-2e3,0,1,no\n7,8,9,10,yes\n",
    "a,b,c,Größe\n1,2,3,klein\n0.5,,1e3,groß\n1,1,1,NA\n".encode(),
    b"1;2;3;4\n5;6;7;8\n",
    b"# a comment\n1\t2\t3\t4\n\n5\t6\t7\t8\r\n",
    b'"a","b","c","d"\n"1","2","3","4"\n5,6,7,8\n',
)


@cache
def corpus(name: str) -> tuple[Seed, ...]:
    """The valid files of a format."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tuple(FORMATS[name]())


def _texts(*texts: bytes) -> list[Seed]:
    packed = [gzip.compress(texts[0], mtime=0), bz2.compress(texts[-1])]
    packed += [lzma.compress(texts[0])]
    return [Seed(text) for text in (*texts, *packed)]


def _models() -> list[Seed]:
    heads = [HEADS[name] for name in ("three", "texts", "platt", "objects")]
    models = [compiled(head, exact=i % 2 == 0) for i, head in enumerate(heads)]
    models += [
        with_cells(),
        compiled(HEADS["three"], exact=True, sparse=True),
        compiled(HEADS["regressor"], exact=True, kernel="poly2"),
        compiled(HEADS["outlier"], names=("a", "b", "c", "d"), notes=("a note",)),
        _pipeline("certified"),
        _pipeline("exact"),
        _several(),
        *_of_other_kernels(),
        *_of_other_heads(),
        *_prepared(),
    ]
    return [Seed(dumps(model), answers_of(model)) for model in models]


def answers_of(model: kl.CompiledModel) -> tuple[object, ...]:
    """What a model answers for a few rows: compared, where a damaged file is accepted."""
    method = next(name for name in METHODS if name in model.offers)
    found = getattr(model, method)(rows_for(model.n_features_in_))
    return tuple(np.asarray(found).ravel().tolist())


def rows_for(width: int) -> np.ndarray:
    """Some plain rows, shape (6, width)."""
    return np.random.default_rng(5).normal(size=(6, width))


def _iris() -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_iris

    X, y = load_iris(return_X_y=True)
    return X[::6], y[::6]


def _pipeline(guarantee: str) -> kl.CompiledModel:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    X, y = _iris()
    fitted = make_pipeline(StandardScaler(), SVC(gamma=0.05)).fit(X, y)
    return kl.compile(fitted, X, guarantee=guarantee, plan="estimate")


def _several() -> kl.CompiledModel:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF

    X, y = _iris()
    fitted = GaussianProcessRegressor(RBF(3.0) + RBF(30.0), alpha=0.5, optimizer=None).fit(X, y)
    return kl.compile(fitted, X, plan="estimate")


def _of_other_kernels() -> list[kl.CompiledModel]:
    """Kernels without forms, a sum and a product of kernels, variances, a polynomial beside."""
    from scipy.interpolate import RBFInterpolator
    from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, DotProduct, Matern, RationalQuadratic
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.svm import SVC, SVR

    X, y = _iris()
    mixed = RBF(3.0) * DotProduct(1.0) + RationalQuadratic(3.0) + 2.0 * Matern(4.0, nu=0.5)
    fitted = [
        SVC(kernel="linear").fit(X, y),
        SVC(kernel="poly", degree=3, coef0=1.0).fit(X, y == 1),
        SVR(kernel="sigmoid", gamma=0.01).fit(X, y),
        KernelRidge(kernel="laplacian").fit(X, y),
        KernelRidge(kernel="cosine").fit(X, np.column_stack([y, -y])),
        GaussianProcessRegressor(Matern(2.0), alpha=0.1, optimizer=None, normalize_y=True).fit(
            X, y
        ),
        GaussianProcessRegressor(mixed, alpha=0.1, optimizer=None).fit(X, y),
        GaussianProcessClassifier(RBF(2.0), optimizer=None).fit(X, y),
        RBFInterpolator(X + 1e-3 * rows_for(4)[0] * y[:, None], y, kernel="thin_plate_spline"),
    ]
    return [kl.compile(one, X, guarantee="exact") for one in fitted]


def _of_other_heads() -> list[kl.CompiledModel]:
    """Coordinates, densities, several machines."""
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.decomposition import KernelPCA
    from sklearn.multiclass import OneVsRestClassifier, OutputCodeClassifier
    from sklearn.neighbors import KernelDensity
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC, SVR

    X, y = _iris()
    svc, scaled = (
        SVC(gamma=0.1),
        TransformedTargetRegressor(SVR(gamma=0.1), transformer=StandardScaler()),
    )
    fitted = [
        KernelPCA(2, kernel="rbf", gamma=0.1).fit(X),
        KernelDensity(bandwidth=0.7).fit(X),
        CalibratedClassifierCV(svc, method="isotonic", cv=2).fit(X, y),
        OneVsRestClassifier(svc).fit(X, y),
        OutputCodeClassifier(svc, code_size=2, random_state=0).fit(X, y),
        scaled.fit(X, y.astype(float)),
    ]
    return [kl.compile(one, X, plan="estimate") for one in fitted]


def with_text() -> kl.CompiledModel:
    """A model of three columns of numbers, a, b and c, and one of text, Größe."""
    return _prepared()[0]


def _prepared() -> list[kl.CompiledModel]:
    """Rows that go through steps first: text, gaps, bins, powers, quantiles, projections."""
    import pandas
    from sklearn import preprocessing as steps
    from sklearn.compose import make_column_transformer
    from sklearn.decomposition import PCA
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import SVC

    X, y = _iris()
    frame = pandas.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2]})
    frame["Größe"] = [("klein", "groß", "\u202e", "")[i % 4] for i in range(len(X))]
    ordinal = steps.OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    columns = make_column_transformer(
        (make_pipeline(SimpleImputer(add_indicator=True), steps.StandardScaler()), ["a", "b"]),
        (steps.OneHotEncoder(handle_unknown="ignore"), ["Größe"]),
        (ordinal, ["Größe"]),
        (steps.KBinsDiscretizer(3), ["c"]),
    )
    chains = (
        (steps.PowerTransformer(), steps.Normalizer()),
        (steps.QuantileTransformer(n_quantiles=6), steps.PolynomialFeatures(2)),
        (steps.StandardScaler(), PCA(2), steps.MinMaxScaler()),
    )
    models = [(make_pipeline(columns, SVC(gamma=0.1)).fit(frame, y), frame)]
    models += [(make_pipeline(*chain, SVC(gamma=0.1)).fit(X, y), X) for chain in chains]
    return [kl.compile(one, rows, plan="estimate") for one, rows in models]


def _approxsvm() -> list[Seed]:
    v, M = np.array([0.5, -1.0, 0.25]), np.diag([1.0, 2.0, -3.0])
    numbers = (0.05, 3.5, -14.5, 14.25, v, M)
    kinds = [((1, -1), "c_svc"), ((1, -1), "one_svm"), (None, "eps_svr")]
    found = []
    for labels, svm_type in kinds:
        text = ApproxText(labels, 0.0, svm_type, *numbers)
        found.append("".join(f"{line}\n" for line in format_text(text)).encode())
    return _texts(*found)


def _arrays(save: Callable[[io.BytesIO], None]) -> Seed:
    file = io.BytesIO()
    save(file)
    return Seed(file.getvalue())


def _npy() -> list[Seed]:
    X = np.arange(12.0).reshape(3, 4)
    kept = [X, np.asfortranarray(X), X.astype(np.float32), X.astype(">i2"), X > 3]
    return [_arrays(lambda file, one=one: np.save(file, one)) for one in kept]


def _npz() -> list[Seed]:
    X = csr_array(np.array([[0, 1.5, 0, 2], [3, 0, 0, 0], [0, 0, 0, 0]]))
    return [
        _arrays(lambda file, packed=packed: save_npz(file, X, compressed=packed))
        for packed in (True, False)
    ]


def _table() -> object:
    import pyarrow as pa

    rng = np.random.default_rng(3)
    columns = {name: rng.normal(size=7) for name in "abcd"}
    texts = pa.array(["klein", "groß", "", None, "klein", "\u202e", "neu"]).dictionary_encode()
    table = pa.table(columns | {"Größe": texts})
    return table.append_column("n", pa.array([1, None, 3, 4, 5, 6, 7]))


def _parquet() -> list[Seed]:
    from pyarrow import parquet

    options = [{"compression": "none"}, {"compression": "snappy", "row_group_size": 3}, {}]
    return [
        _arrays(lambda file, one=one: parquet.write_table(_table(), file, **one)) for one in options
    ]


def _arrow() -> list[Seed]:
    import pyarrow as pa

    def whole(file: io.BytesIO) -> None:
        table: object = _table()
        with pa.ipc.new_file(file, table.schema) as sink:  # type: ignore[attr-defined]
            sink.write_table(table, max_chunksize=3)

    def stream(file: io.BytesIO) -> None:
        table: object = _table()
        with pa.ipc.new_stream(file, table.schema) as sink:  # type: ignore[attr-defined]
            sink.write_table(table)

    return [_arrays(whole), _arrays(stream)]


FORMATS: dict[str, Callable[[], list[Seed]]] = {
    "kernelite": _models,
    "kernelite, digest renewed": _models,
    "libsvm model": lambda: _texts(MODEL, BINARY, LINEAR, CUBIC, SIGMOID, REGRESSOR, ONE_CLASS),
    "libsvm data": lambda: _texts(*DATA),
    "range": lambda: _texts(*RANGES),
    "approxsvm": _approxsvm,
    "csv": lambda: _texts(*CSV),
    "npy": _npy,
    "npz": _npz,
    "parquet": _parquet,
    "arrow": _arrow,
}
