"""A Spark session on two cores of this machine that is gone when the block ends."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import kernelite

SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}


@contextmanager
def spark_session(folder: Path) -> Iterator[Any]:
    """Spark with workers that see this kernelite; nothing outside loopback, files in `folder`."""
    from pyspark.sql import SparkSession

    # Workers are new interpreters: they find the package where this process found it.
    source = str(Path(kernelite.__file__).parents[1])
    os.environ["PYTHONPATH"] = os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("kernelite")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    builder = builder.config("spark.sql.warehouse.dir", str(folder / "warehouse"))
    builder = builder.config("spark.local.dir", str(folder))
    session = builder.getOrCreate()
    try:
        yield session
    finally:
        gateway = session.sparkContext._gateway
        session.stop()
        gateway.shutdown()
        if gateway.proc is not None:
            gateway.proc.stdin.close()
            gateway.proc.wait(timeout=30)
