"""Models on their way: counted when they arrive, unpacked once."""

from __future__ import annotations

import ast
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import kernelite as kl
import kernelite.spark as ks
from kernelite.data.scoring import shipping
from kernelite.data.scoring.shipping import Options, Ticket, drop, ship
from kernelite.support.errors import InputError, MissingExtraError
from tests.helpers import random_expansion
from tests.models import fitted


@pytest.fixture
def model() -> kl.CompiledModel:
    expansion = random_expansion(np.random.default_rng(3), d=3)
    return kl.compile(expansion, guarantee="exact")


def test_the_same_model_has_one_name(model: kl.CompiledModel) -> None:
    again = kl.compile(model.expansion, guarantee="exact")
    assert ship(model) is ship(again)
    assert ship(model).scorer(Options()) is Ticket(ship(model).digest).scorer(Options())


def test_arrivals_are_counted_and_unpacked_once(model: kl.CompiledModel) -> None:
    shipment = ship(model)
    path = str(Path(kl.__file__).parents[1])
    code = (
        "import pickle, sys\n"
        f"sys.path.insert(0, {path!r})\n"
        "from kernelite.data.scoring.shipping import Ticket, arrivals\n"
        "data = sys.stdin.buffer.read()\n"
        "first, second = pickle.loads(data), pickle.loads(data)\n"
        "assert first is second\n"
        "models = [first.model(), Ticket(first.digest).model()]\n"
        "assert models[0] is models[1]\n"
        "print(arrivals()[first.digest])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps(shipment), capture_output=True, check=True
    )
    assert ast.literal_eval(done.stdout.decode()) == {"received": 2, "unpacked": 1}


def test_a_model_that_did_not_come_is_named(model: kl.CompiledModel) -> None:
    shipment = ship(model)
    drop(shipment.digest)
    with pytest.raises(InputError, match=f"model {shipment.digest[:12]} was not sent"):
        Ticket(shipment.digest).model()


def test_few_models_stay_unpacked() -> None:
    tickets = []
    for seed in range(shipping.MOST_MODELS + 3):
        expansion = random_expansion(np.random.default_rng(seed), n=4, d=2)
        shipment = ship(kl.compile(expansion, guarantee="exact"))
        shipping._forget_unpacked(shipment.digest)
        shipment.model()
        tickets.append(shipment.digest)
    assert len(shipping._models) <= shipping.MOST_MODELS
    assert tickets[-1] in shipping._models
    assert Ticket(tickets[0]).model().n_features_in_ == 2  # unpacked once more


def test_models_with_python_objects_are_pickled() -> None:
    source, X = fitted("pipeline clipped")
    model = kl.compile(source, X)
    shipment = ship(model)
    assert not shipment.stored
    shipping._forget_unpacked(shipment.digest)
    np.testing.assert_array_equal(shipment.model().predict(X), model.predict(X))


def test_spark_names_its_extra(model: kl.CompiledModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    monkeypatch.setitem(sys.modules, "pyspark.sql.functions", None)
    with pytest.raises(MissingExtraError, match=r"the extra .spark."):
        ks.predict_udf(model)
