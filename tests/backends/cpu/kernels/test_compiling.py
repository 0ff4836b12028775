"""Kernels are called with arrays and numbers; whatever else comes is made fit, or refused."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kernelite
from kernelite.backends.cpu.kernels import exp, panel_sums
from kernelite.backends.cpu.kernels.compiling import OutVector, jit_available, kernel
from kernelite.backends.cpu.kernels.exp import affine
from kernelite.backends.cpu.kernels.exp2 import DOUBLE
from kernelite.backends.cpu.kernels.local import local_kernel

SOURCE = Path(kernelite.__file__).parents[1]


def run(code: str, *, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("NUMBA_")}
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=cwd,
        env={**inherited, "PYTHONPATH": str(SOURCE), **environment},
        capture_output=True,
        text=True,
        check=True,
    )


def test_available_here() -> None:
    assert jit_available()


@kernel()
def _allocate(values: OutVector, size: int) -> int:
    room = np.empty(size)
    values[0] += 1.0
    room[0] = 1.0
    return -3


class Subclass(np.ndarray):
    """As `np.memmap` is one."""


def test_subclasses_and_numbers_of_numpy_will_do() -> None:
    values = np.arange(4.0)
    affine(values.view(Subclass), np.float32(2.0), np.int64(1))
    affine(values.view(np.dtype("float64", metadata={"unit": "m"})), True, 0)
    np.testing.assert_array_equal(values, [1.0, 3.0, 5.0, 7.0])


WRONG: dict[str, Any] = {
    "a list": [1.0],
    "nothing": None,
    "every other entry": np.zeros(8)[::2],
    "single precision": np.zeros(4, np.float32),
    "integers": np.zeros(4, np.int64),
    "another byte order": np.zeros(4, ">f8"),
    "a matrix": np.zeros((2, 2)),
    "a number": np.float64(3.0),
    "not aligned": np.zeros(33, np.uint8)[1:].view(np.float64),
    "read-only": np.broadcast_to(0.0, 1),
}


@pytest.mark.parametrize("kind", WRONG)
def test_other_arguments_are_refused_in_a_sentence(kind: str) -> None:
    with pytest.raises(TypeError, match=r"^argument 0 of exp_affine (should be|is no array)"):
        affine(WRONG[kind], 1.0, 1.0)


def test_wrong_numbers_are_refused() -> None:
    values = np.ones(2)
    with pytest.raises(TypeError):
        affine(values, 1.0)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="could not convert"):
        affine(values, "x", 1.0)  # type: ignore[arg-type]
    with pytest.raises(OverflowError):
        _allocate(values, 2**63)
    with pytest.raises(TypeError, match="integer"):
        _allocate(values, 1.0)  # type: ignore[arg-type]
    np.testing.assert_array_equal(values, 1.0)


def test_results_and_a_lack_of_memory_come_through() -> None:
    values = np.zeros(1)
    assert _allocate(values, 5) == -3
    with pytest.raises(MemoryError):
        _allocate(values, 2**58)
    assert values[0] == 1.0


@pytest.mark.parametrize(
    "function",
    [exp.fill_exponents, exp.sigmoid, panel_sums.SCORES[DOUBLE], local_kernel(2)],
    ids=lambda function: function.__name__,
)
def test_the_optimiser_may_contract_and_nothing_else(function: Any) -> None:
    """What the proofs assume of the compiled code, read in the code that is emitted."""
    pytest.importorskip("numba")
    from kernelite.backends.cpu.kernels.tracing import library_of, pool_compiled_now

    pool_compiled_now()  # else numba, which loads all that it compiled, would look for it in vain
    text = library_of(function.kernel).get_llvm_str()
    flags = r"(?:reassoc|arcp|nnan|ninf|nsz|afn|fast|contract)"
    found = re.findall(rf"= (?:tail call|fadd|fsub|fmul|fdiv|fneg|fcmp|call)((?: {flags})*) ", text)
    assert {flag for some in found for flag in some.split()} == {"contract"}


@pytest.mark.parametrize("freedom", ["reassoc", "arcp", "nsz", "fast"])
def test_a_build_reads_each_kernel_for_more_than_that(
    freedom: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So what a library holds has been read, all of it and for its own family."""
    pytest.importorskip("numba")
    from kernelite.backends.cpu.kernels import emitting, tracing

    own: Any = exp.fill_exponents
    own = own.kernel
    text = tracing.library_of(own).get_llvm_str()
    assert text.count("fmul contract ")

    class Library:
        def get_llvm_str(self) -> str:
            return text.replace("fmul contract ", f"fmul {freedom} contract ", 1)

    monkeypatch.setattr(tracing, "library_of", lambda _: Library())
    with pytest.raises(ValueError, match=f"lets LLVM do more than contract: {freedom}"):
        emitting._module(own.symbol, own, None)


@pytest.mark.parametrize("align", [1, 32, 64, 256])
def test_arrays_that_kernels_make_begin_with_a_line_of_the_cache(align: int) -> None:
    """Else vectors of 512 bits lie across two, as often as not."""
    pytest.importorskip("numba")
    import llvmlite.binding as llvm

    from kernelite.backends.cpu.kernels import emitting

    machine: Any = llvm.Target.from_default_triple().create_target_machine(jit=True)
    module = emitting._module("runtime", None, machine)
    engine: Any = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    kind, done = (
        ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32),
        ctypes.CFUNCTYPE(None, ctypes.c_void_p),
    )
    make = kind(engine.get_function_address("NRT_MemInfo_alloc_aligned"))
    end = done(engine.get_function_address("NRT_MemInfo_call_dtor"))
    found = [make(size, align) for size in range(1, 400, 7)]
    for size, one in zip(range(1, 400, 7), found):
        count, _, _, data, length, _ = (ctypes.c_int64 * 6).from_address(one)
        assert (count, length, data % max(64, align)) == (1, size, 0)
        assert data >= one + 48
        ctypes.memset(data, 255, size)
        end(one)


# What instructions beyond x86-64-v4 are for, in LLVM's words: counts and orders of bits, shifts of
# two numbers as one, bytes in another order, short floats.
BEYOND_V4 = """
declare <8 x i64> @llvm.ctpop.v8i64(<8 x i64>)
declare <64 x i8> @llvm.bitreverse.v64i8(<64 x i8>)
declare <8 x i64> @llvm.fshl.v8i64(<8 x i64>, <8 x i64>, <8 x i64>)
define <8 x i64> @count(<8 x i64> %x, <8 x i64> %y, <8 x i64> %z) {
  %n = call <8 x i64> @llvm.ctpop.v8i64(<8 x i64> %x)
  %s = call <8 x i64> @llvm.fshl.v8i64(<8 x i64> %n, <8 x i64> %y, <8 x i64> %z)
  ret <8 x i64> %s
}
define <64 x i8> @turn(<64 x i8> %x) {
  %r = call <64 x i8> @llvm.bitreverse.v64i8(<64 x i8> %x)
  %m = shufflevector <64 x i8> %r, <64 x i8> poison, <64 x i32> <MASK>
  ret <64 x i8> %m
}
define <16 x bfloat> @shorten(<16 x float> %x) {
  %s = fptrunc <16 x float> %x to <16 x bfloat>
  ret <16 x bfloat> %s
}
""".replace("MASK", ", ".join(f"i32 {37 * i % 64}" for i in range(64)))


def test_code_for_a_family_runs_on_all_processors_of_it() -> None:
    """Though it is laid out for one that can do more."""
    pytest.importorskip("numba")
    import llvmlite.binding as llvm

    from kernelite.backends.cpu.kernels.emitting import machine_for
    from kernelite.backends.cpu.kernels.providers import FAMILIES

    family = FAMILIES["x86-64-v4"]
    beyond = r"\t(vpopcnt|vpshld|vgf2p8|vperm[bit2]*b|vcvtneps2bf16)"
    found = [
        set(re.findall(beyond, machine_for(one).emit_assembly(llvm.parse_assembly(BEYOND_V4))))
        for one in (family, family._replace(features=""))
    ]
    assert not found[0]
    assert len(found[1]) == 5


@pytest.mark.parametrize(
    ("prologue", "reason"),
    [
        ("import sys; sys.modules['numba'] = None", "numba is not installed"),
        ("import os; os.environ['NUMBA_DISABLE_JIT'] = '1'", "switched off"),
        ("import os; os.environ['KERNELITE_KERNELS'] = 'numpy'", "switched off"),
    ],
)
def test_one_note_when_there_are_none(tmp_path: Path, prologue: str, reason: str) -> None:
    code = prologue + (
        "\nfrom kernelite.backends.cpu.kernels.compiling import jit_available"
        "\nprint(jit_available(), jit_available())"
    )
    done = run(code, cwd=tmp_path, KERNELITE_KERNELS="numba")
    assert done.stdout.split() == ["False", "False"]
    assert done.stderr.count("JitWarning") == 1
    assert reason in done.stderr
    assert "predicting takes several times longer" in done.stderr


def test_a_library_of_other_sources_is_not_used(tmp_path: Path) -> None:
    package = tmp_path / "kernelite"
    shutil.copytree(SOURCE / "kernelite", package)  # its libraries too
    helpers = package / "backends" / "cpu" / "kernels" / "exp.py"
    text = helpers.read_text()
    assert text.count("mantissa * scale") == 1
    helpers.write_text(text.replace("mantissa * scale", "mantissa * scale * 3.0"))
    code = (
        "import numpy as np\nfrom kernelite.backends.cpu.kernels.exp import exp_in_place\n"
        "tile = np.zeros((1, 1))\nexp_in_place(tile)\nprint(tile[0, 0])"
    )
    here = {"PYTHONPATH": str(tmp_path), "KERNELITE_KERNELS": ""}
    done = run(code, cwd=tmp_path, **here)
    assert done.stdout.strip() == "3.0"
    assert done.stderr.count("numba compiles kernels") == 1
