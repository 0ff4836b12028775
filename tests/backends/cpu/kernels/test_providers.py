"""Libraries of kernels: built, loaded from where nobody else can write, refused if not right."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import kernelite
from kernelite.backends.cpu.kernels import objects, providers
from kernelite.backends.cpu.kernels.build import FIRST_MODULES, LAST_MODULES, build, declare_all
from kernelite.support.errors import MissingExtraError

SOURCE = Path(kernelite.__file__).parents[1]
SOME = ["exp_affine", "exp__exp_kernel", "panel_sums_single_scores"]
RAISING = ["judging_judge_rows"]  # whose exceptions numba describes by a file of its own
FAMILY = next(iter(providers.families_here()), "")
HERE = FAMILY and shutil.which("cc") and providers._against_numba() is None
pytestmark = pytest.mark.skipif(not HERE, reason="needs Linux on x86-64-v3, numba and cc")

ANSWER = """
import sys, threading, warnings
import numpy as np
if {forbidden}: sys.modules["numba"] = None
from kernelite.backends.cpu.kernels.exp import affine, exp_in_place
from kernelite.backends.cpu.kernels.providers import provider
values = np.linspace(-3.0, 0.0, 9)
affine(values, 2.0, 1.0)
tile = np.array([values])
exp_in_place(tile)
print(provider().family, *tile[0].tolist())
"""


@pytest.fixture(scope="module")
def objects_kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("objects")


@pytest.fixture(scope="module")
def part(tmp_path_factory: pytest.TempPathFactory, objects_kept: Path) -> bytes:
    """A library with a few kernels, which says so."""
    path = tmp_path_factory.mktemp("library") / "some.so"
    told: list[tuple[int, int]] = []
    tell = lambda *done: told.append(done)  # noqa: E731
    assert build(FAMILY, path, tell, only=SOME, objects=objects_kept) == len(SOME)
    assert told[-1] == (len(SOME), len(SOME))
    return path.read_bytes()


@pytest.fixture(scope="module")
def library(part: bytes) -> bytes:
    """The same under the name of one with all."""
    return providers.finished(part[: part.rindex(providers.MAGIC)], FAMILY)


def kept(folder: Path, data: bytes, name: str = FAMILY) -> Path:
    """A library where it is looked for, with KERNELITE_CACHE=folder."""
    path = folder / "kernels" / providers.library_name(name)
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    return path


def run(
    folder: Path, code: str = ANSWER, *, forbidden: bool = False, family: str = FAMILY
) -> subprocess.CompletedProcess[str]:
    asked = {"KERNELITE_CACHE": str(folder), "KERNELITE_KERNELS": family}
    return subprocess.run(
        [sys.executable, "-c", code.replace("{forbidden}", str(forbidden))],
        env={**os.environ, "PYTHONPATH": str(SOURCE), **asked},
        capture_output=True,
        text=True,
        check=True,
    )


def test_the_same_sources_give_the_same_bytes(part: bytes, tmp_path: Path) -> None:
    build(FAMILY, tmp_path / "again.so", only=reversed(SOME))
    assert (tmp_path / "again.so").read_bytes() == part


def test_only_what_changed_is_compiled_again(
    part: bytes, objects_kept: Path, tmp_path: Path
) -> None:
    path, objects = tmp_path / "some.so", objects_kept
    assert build(FAMILY, path, only=SOME, objects=objects) == 0
    assert path.read_bytes() == part
    one = next(objects.glob("exp_affine-*.o"))
    one.chmod(0o666)  # others can have written it
    more = [*SOME, "densify__take_kernel"]
    assert build(FAMILY, path, only=more, objects=objects) == 2
    assert build(FAMILY, path, only=SOME, objects=objects) == 0
    assert path.read_bytes() == part


def test_an_object_depends_on_all_that_its_kernel_is_made_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kernelite.backends.cpu.kernels import emitting

    package = tmp_path / "kernelite"
    shutil.copytree(providers._PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(providers, "_PACKAGE", package)
    others = {
        "kernelite.backends.cpu.kernels.panel_sums": ["exp2", "panel_sums", "entries"],
        "kernelite.data.tables.libsvm_kernel": ["entries"],
        "kernelite.backends.cpu.kernels.radial": ["exp2", "radial", "lanes", "entries"],
    }

    def keys() -> dict[str, str]:
        for function in (emitting._imports, emitting._meaning, emitting._tree):
            function.cache_clear()
        return {module: emitting._key(FAMILY, module) for module in others}

    for name in ("exp2", "panel_sums", "radial", "lanes", "entries", "build", "providers"):
        before = keys()
        with open(package / f"backends/cpu/kernels/{name}.py", "a", encoding="utf-8") as file:
            file.write("\n# A comment.\n")
            file.flush()
            assert keys() == before
            file.write("ONE_MORE = 1\n")
        after = keys()
        changed = {module for module in others if after[module] != before[module]}
        assert changed == {module for module, made_of in others.items() if name in made_of}, name
    before = keys()
    (package / "machine/kernels/powers.py").write_text("")  # by way of its package
    after = keys()
    assert {m for m in others if after[m] != before[m]} == {"kernelite.backends.cpu.kernels.radial"}


def test_it_names_no_folder_of_the_machine_it_was_built_on(library: bytes) -> None:
    assert str(SOURCE).encode() not in library
    assert b"site-packages" not in library


@pytest.mark.campaign
def test_bytes_do_not_depend_on_the_length_of_a_path(tmp_path: Path) -> None:
    """numba describes exceptions by the file that raises them; here its files have longer names."""
    import numba

    found = []
    for folder in (tmp_path / "short", tmp_path / "quite-a-long-way" / "to-the-same-packages"):
        folder.parent.mkdir(exist_ok=True)
        folder.symlink_to(Path(numba.__file__).parents[1])
        path = tmp_path / f"{len(found)}.so"
        code = f"""
import sys
sys.path.insert(0, {str(folder)!r})
from pathlib import Path
from kernelite.backends.cpu.kernels.build import build
build({FAMILY!r}, Path({str(path)!r}), only={RAISING!r})
import numba
assert numba.__file__.startswith({str(folder)!r})
"""
        environment = {**os.environ, "PYTHONPATH": f"{SOURCE}{os.pathsep}{folder}"}
        subprocess.run([sys.executable, "-c", code], env=environment, check=True)
        found.append(path.read_bytes())
    assert found[0] == found[1]


def test_what_is_left_of_an_exception_has_one_length() -> None:
    from kernelite.backends.cpu.kernels.emitting import _without_exceptions

    def described(path: str) -> str:
        return (
            f'@.const.pickledata.a1 = internal constant [{len(path)} x i8] c"{path}"\n'
            '@.const.pickledata.a1.sha1 = internal constant [2 x i8] c"\\22x"\n'
            "@.const.picklebuf.a1 = internal constant { ptr, i32, ptr, ptr, i32 } "
            f"{{ ptr @.const.pickledata.a1, i32 {len(path)}, ptr null, ptr null, i32 0 }}\n"
        )

    left = _without_exceptions(described("/a/file.py"))
    assert left == _without_exceptions(described("/a/longer/way/to/file.py"))
    assert left.count("zeroinitializer") == 3


def test_the_order_of_compiling_names_modules_of_kernels() -> None:
    modules = {kernel.function.__module__.rpartition(".")[2] for kernel in declare_all()}
    assert modules.issuperset((*FIRST_MODULES, *LAST_MODULES))
    assert len({*FIRST_MODULES, *LAST_MODULES}) == len(FIRST_MODULES) + len(LAST_MODULES)


EMITTED = """
import hashlib, sys
from kernelite.backends.cpu.kernels import emitting
if {quick}: emitting.quicken()
emitting.compile_for(sys.argv[1])
kernels = {kernel.symbol: kernel for kernel in emitting.declare_all()}
machine = emitting.machine_for(emitting.FAMILIES[sys.argv[1]])
for name in sys.argv[2:]:
    code = machine.emit_object(emitting._module(name, kernels[name], machine))
    print(name, hashlib.sha256(code).hexdigest())
"""


def test_a_quicker_numba_gives_the_same_code() -> None:
    kernels = [FAMILY, "judging_judge_rows", "exp_fill_exponents", "radial_rbf"]
    said = [
        subprocess.run(
            [sys.executable, "-c", EMITTED.replace("{quick}", quick), *kernels],
            env={**os.environ, "PYTHONPATH": str(SOURCE), "KERNELITE_KERNELS": "numba"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for quick in ("True", "False")
    ]
    assert said[0] == said[1]
    assert len(said[0].splitlines()) == 3


def test_it_needs_nothing_but_the_c_library(library: bytes) -> None:
    assert set(re.findall(rb"lib[a-z+]+\.so[.0-9]*", library)) <= {b"libc.so.6", b"libm.so.6"}


def test_without_numba_the_library_gives_numbas_bits(library: bytes, tmp_path: Path) -> None:
    kept(tmp_path, library)
    done = run(tmp_path, forbidden=True)
    assert done.stderr == ""
    family, *values = done.stdout.split()
    assert family == FAMILY
    name, *others = run(tmp_path, family="numba").stdout.split()
    assert name == "numba"
    np.testing.assert_allclose(np.array(values, float), np.array(others, float), rtol=4e-16)


CHANGES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "a byte": (lambda data: data[:5000] + bytes([data[5000] ^ 1]) + data[5001:], "is damaged"),
    "cut off": (lambda data: data[:-4096], "is damaged"),
    "empty": (lambda data: b"", "is damaged"),
    "text": (lambda data: b"#!/bin/sh\n" * 99, "is damaged"),
    "no library": (lambda data: providers.finished(b"no library", FAMILY), "not used: "),
    "of another family": (
        lambda data: providers.finished(data[: data.rindex(providers.MAGIC)], "x86-64-v9"),
        "was made of other sources",
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_damaged_or_foreign_is_refused_in_one_sentence(
    change: str, library: bytes, alone: Path
) -> None:
    changed, reason = CHANGES[change]
    path = kept(alone, changed(library))
    with pytest.warns(providers.JitWarning, match=reason) as said:
        assert providers._library(FAMILY) is None
    assert len([one for one in said if str(path) in str(one.message)]) == 1


def test_then_the_next_provider_answers(library: bytes, tmp_path: Path) -> None:
    kept(tmp_path, CHANGES["a byte"][0](library))
    done = run(tmp_path, family="")
    assert len(done.stdout.split()) == 10
    assert done.stderr.count("is damaged") == 1


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The only folder that libraries are looked for in."""
    monkeypatch.setattr(providers, "library_folders", lambda: [tmp_path / "kernels"])
    return tmp_path


@pytest.mark.parametrize("name", [FAMILY, FAMILY + providers.PART])
def test_what_others_can_write_is_not_used(
    library: bytes, part: bytes, alone: Path, name: str
) -> None:
    path = kept(alone, library if name == FAMILY else part, name)
    assert providers.library_path(name) == path
    path.chmod(0o666)
    assert providers.library_path(name) is None
    path.chmod(0o644)
    path.parent.chmod(0o777)
    assert providers.library_path(name) is None
    path.parent.chmod(0o755)
    assert providers.library_path(name) == path
    path.rename(alone / "elsewhere.so")
    path.symlink_to(alone / "elsewhere.so")
    assert providers.library_path(name) is None


def test_a_part_is_never_taken_for_the_whole(library: bytes, part: bytes, alone: Path) -> None:
    paths = kept(alone, part), kept(alone / "other", library, FAMILY + providers.PART)
    for path, name in zip(paths, (FAMILY, FAMILY + providers.PART)):
        assert providers.why_refused(path, name) == "it was made of other sources"
    with pytest.warns(providers.JitWarning, match="was made of other sources"):
        assert providers._library(FAMILY) is None


ONLY_HERE = """
import sys
from pathlib import Path
import numpy as np
if {forbidden}: sys.modules["numba"] = None
from kernelite.backends.cpu.kernels import providers
providers.library_folders = lambda: [Path("{folder}")]
from kernelite.backends.cpu.kernels.exp import affine, sigmoid
print(getattr(providers.provider(), "family", None))
values = np.linspace(-3.0, 0.0, 9)
affine(values, 2.0, 1.0)  # which is in it
sigmoid(values, 0.5, 0.25)  # which is not
print(*values.tolist())
"""


def test_numba_compiles_what_a_part_lacks(part: bytes, tmp_path: Path) -> None:
    folder = kept(tmp_path, part, FAMILY + providers.PART).parent
    code = ONLY_HERE.replace("{folder}", str(folder))
    done = run(tmp_path, code, family="")
    family, *values = done.stdout.split()
    assert family == FAMILY
    inner = 2.0 * np.linspace(-3.0, 0.0, 9) + 1.0
    np.testing.assert_allclose(np.array(values, float), np.tanh(0.5 * inner + 0.25), atol=1e-15)
    assert done.stderr.count("`kernelite warm-up` builds them once") == 1
    assert done.stderr.count("\n") == 1


def test_without_numba_a_part_is_not_used(part: bytes, tmp_path: Path) -> None:
    folder = kept(tmp_path, part, FAMILY + providers.PART).parent
    code = ONLY_HERE.replace("{folder}", str(folder)).partition("values =")[0]
    done = run(tmp_path, code, forbidden=True, family="")
    assert done.stdout == "None\n"
    assert done.stderr.count("JitWarning: no library of kernels fits this machine") == 1


def test_the_working_directory_is_no_place_for_libraries(
    library: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert all(folder.is_absolute() for folder in providers.library_folders())


def test_arrays_that_are_laid_out_otherwise_are_not_touched(
    library: bytes, alone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept(alone, library)
    monkeypatch.setattr(objects, "HEADER_BYTES", 32)  # as without the interpreter's lock
    with pytest.warns(providers.JitWarning, match="laid out in another way"):
        assert providers.library_path(FAMILY) is None


TOGETHER = """
import os, threading
import numpy as np
from kernelite.backends.cpu.kernels.exp import affine
def work():
    values = np.ones(100_000)
    for _ in range(200): affine(values, 0.5, 0.5)
    if not (values == 1.0).all(): os._exit(3)
affine(np.ones(1), 0.5, 0.5)  # a fork while another thread imports locks the child, whoever imports
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
child = os.fork()
if not child:
    work()
    os._exit(0)
for thread in threads: thread.join()
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_threads_and_forks_share_it(library: bytes, tmp_path: Path) -> None:
    kept(tmp_path, library)
    assert run(tmp_path, TOGETHER).stdout.split() == ["0"]


def test_kernels_run_without_the_interpreters_lock(library: bytes, tmp_path: Path) -> None:
    """Else a signal, or another thread, would wait for a long call."""
    kept(tmp_path, library)
    code = (
        "import signal, time\nimport numpy as np\n"
        "from kernelite.backends.cpu.kernels.exp import affine\nimport threading\n"
        "values, seen = np.ones(60_000_000), []\naffine(values[:1], 1.0, 0.0)\n"
        "inside = threading.Event()\n"
        "def work():\n    inside.set()\n    affine(values, 0.5, 0.5)\n    seen.append('kernel')\n"
        "thread = threading.Thread(target=work)\nimport sys\nsys.setswitchinterval(100.0)\n"
        "thread.start()\ninside.wait()\nseen.append('main')\nthread.join()\nprint(*seen)"
    )
    assert run(tmp_path, code).stdout.split() == ["main", "kernel"]


def test_a_processor_without_a_family_has_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(providers.platform, "machine", lambda: "riscv64")
    assert providers.families_here() == []
    monkeypatch.setattr(providers.platform, "machine", lambda: "aarch64")
    assert providers.families_here() == ["aarch64"]


def test_a_family_that_is_not_this_processors_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(providers, "families_here", lambda: ["x86-64-v3"])
    monkeypatch.setenv("KERNELITE_KERNELS", "x86-64-v4")
    with pytest.raises(MissingExtraError, match=r"is `x86-64-v4`.*one of numba, numpy, x86-64-v3"):
        providers.provider.__wrapped__()


def test_no_other_provider_answers_for_a_family_that_is_named(
    alone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else numba would be tested under its name."""
    monkeypatch.setenv("KERNELITE_KERNELS", FAMILY)
    with pytest.raises(MissingExtraError, match=f"is `{FAMILY}`, and there is no library"):
        providers.provider.__wrapped__()


def test_other_sources_or_families_have_another_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = providers.identity(FAMILY)
    assert providers.identity("x86-64-v9") != mine
    monkeypatch.setattr(providers, "_sources", lambda: b"others")
    assert providers.identity(FAMILY) != mine


def test_all_that_kernels_are_made_of_is_in_their_identity(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "kernelite"
    shutil.copytree(providers._PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(providers, "_PACKAGE", package)
    sources = providers._sources.__wrapped__
    mine = sources()
    for name in ("backends/cpu/kernels/exp.py", "series/rounding.py", "program/bounded.py"):
        with open(package / name, "a", encoding="utf-8") as file:
            file.write("\n")
        assert sources() != mine, name
        mine = sources()
