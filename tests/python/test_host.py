"""build/torshi from outside: it is the python3 it was built against, with the engine in it."""

from __future__ import annotations

import json
import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import sysconfig
import textwrap
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

BUILD = Path(os.environ["TORSHI_BUILD"])
HOST = str(BUILD / "torshi")
PYTHON = os.path.join(
    sysconfig.get_config_var("BINDIR"), f"python{sys.version_info[0]}.{sys.version_info[1]}"
)


def environment(**extra: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "TORSHI"))}
    return kept | extra


def run(
    *words: str, program: str = HOST, env: dict[str, str] | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:
    options.setdefault("stdin", subprocess.DEVNULL if "input" not in options else None)
    if "input" in options:
        del options["stdin"]
    return subprocess.run(
        [program, *words],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment(**(env or {})),
        **options,
    )


def said(*words: str, **options: Any) -> Any:
    """What a program that prints JSON said; it must have ended well."""
    done = run(*words, **options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.strip().splitlines()[-1])


def both(*words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """The host must do what python3 does: status, output and errors, but for its own name."""
    theirs, ours = run(*words, program=PYTHON, **options), run(*words, **options)
    assert ours.returncode == theirs.returncode, (ours, theirs)
    assert ours.stdout.replace(HOST, PYTHON) == theirs.stdout
    assert ours.stderr.replace(HOST, PYTHON) == theirs.stderr
    return ours


PATHS = """
import json, sys, site, sysconfig
print(json.dumps([sys.path, sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix,
    sys.platlibdir, sysconfig.get_paths(), site.getsitepackages(), site.getusersitepackages(),
    list(sys.flags), sys.warnoptions, sys.stdout.encoding, sys.getfilesystemencoding()]))
"""


@pytest.mark.parametrize(
    "options",
    [[], ["-I"], ["-E"], ["-s"], ["-S", "-c", "pass"], ["-P"], ["-O"], ["-OO"], ["-B", "-u"],
     ["-W", "error", "-Wignore"], ["-X", "dev"], ["-X", "utf8=0"], ["-Xutf8", "-b"], ["-q", "-d"]],
)  # fmt: skip
def test_paths_and_flags_are_python3s(options: list[str]) -> None:
    both(*(options if "-c" in options else [*options, "-c", PATHS]))


@pytest.mark.parametrize(
    "variables",
    [
        {"PYTHONPATH": "/a:/b"},
        {"PYTHONHOME": sys.base_prefix},
        {"PYTHONNOUSERSITE": "1", "PYTHONOPTIMIZE": "1"},
        {"PYTHONUTF8": "1", "PYTHONIOENCODING": "latin-1"},
        {"PYTHONWARNINGS": "error", "PYTHONSAFEPATH": "1"},
        {"LC_ALL": "C"},
        {"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0"},
    ],
)
def test_environment_is_python3s(variables: dict[str, str]) -> None:
    both("-c", PATHS, env=variables)


def test_environment_is_handed_on_unchanged() -> None:
    code = "import os, json; e = dict(os.environ); e.pop('_', None); print(json.dumps(e))"
    both("-c", code)


@pytest.mark.parametrize(
    "code, status",
    [
        ("pass", 0),
        ("import sys; sys.exit(3)", 3),
        ("import sys; sys.exit(True)", 1),
        ("import sys; sys.exit('text')", 1),
        ("import sys; sys.exit(None)", 0),
        ("import sys; sys.exit(300)", 300 & 255),
        ("raise SystemExit", 0),
        ("raise KeyError('x')", 1),
        ("syntax error", 1),
        ("import os; os._exit(9)", 9),
        ("import os; os.abort()", -signal.SIGABRT),
        ("raise KeyboardInterrupt", -signal.SIGINT),
        ("import sys; sys.stdout.close()", 0),
        ("import atexit; atexit.register(print, 'end')", 0),
        ("import threading; threading.Thread(target=lambda: 1 / 0, name='t').start()", 0),
    ],
)
def test_exit_status(code: str, status: int) -> None:
    theirs, ours = run("-c", code, program=PYTHON), run("-c", code)
    assert ours.returncode == theirs.returncode == status
    assert ours.stdout == theirs.stdout


@pytest.mark.parametrize(
    "words", [["-Z"], ["--nothing"], ["no such file.py"], ["-m", "no_such_module"], ["-W"],
              ["-X"], ["-c"], ["-m"], ["--check-hash-based-pycs", "x"]],
)  # fmt: skip
def test_wrong_use(words: list[str]) -> None:
    theirs, ours = run(*words, program=PYTHON), run(*words)
    assert (ours.returncode, ours.stdout) == (theirs.returncode, theirs.stdout)
    assert ours.returncode != 0 and ours.stderr


def test_wrong_variable() -> None:
    done = run("-c", "pass", env={"PYTHONHASHSEED": "no"})
    assert done.returncode == 1 and "PYTHONHASHSEED" in done.stderr


def test_ways_to_give_a_program(tmp_path: Path) -> None:
    show = "import sys; print(sys.argv, sys.path[0], __name__, globals().get('__file__'))\n"
    (tmp_path / "script.py").write_text(show)
    (tmp_path / "module.py").write_text(show)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "__main__.py").write_text(show)
    with zipfile.ZipFile(tmp_path / "app.pyz", "w") as archive:
        archive.writestr("__main__.py", show)
    rest = ["-X", "torshi=off", "--", "-h", "\u20ac"]
    both("script.py", *rest, cwd=tmp_path)
    both("folder", *rest, cwd=tmp_path)
    both("app.pyz", *rest, cwd=tmp_path)
    both("-m", "module", *rest, cwd=tmp_path)
    both("-c", show, *rest, cwd=tmp_path)
    both("-", *rest, cwd=tmp_path, input=show)
    both(cwd=tmp_path, input=show)
    both("-x", "script.py", cwd=tmp_path)
    both("-i", "script.py", cwd=tmp_path, input="print(6 * 7)\n")


def test_interactive() -> None:
    """A prompt on a terminal, and an error there does not end it."""
    main, side = pty.openpty()
    process = subprocess.Popen(
        [HOST, "-q", "-I"], stdin=side, stdout=side, stderr=side, close_fds=True,
        env=environment(TERM="dumb", PYTHON_BASIC_REPL="1"), start_new_session=True,
    )  # fmt: skip
    os.close(side)
    os.write(main, b"1 / 0\nimport _pickle; print(6 * 7)\nexit(5)\n")
    seen, end = b"", time.monotonic() + 30
    while time.monotonic() < end:
        if select.select([main], [], [], 0.2)[0]:
            try:
                seen += os.read(main, 4096)
            except OSError:
                break
        elif process.poll() is not None:
            break
    assert process.wait(10) == 5
    os.close(main)
    assert b">>>" in seen and b"ZeroDivisionError" in seen and b"42" in seen


def test_broken_pipe() -> None:
    code = "import sys\nfor i in range(100000): print(i)\n"
    statuses = []
    for program in (PYTHON, HOST):
        shell = f'"{program}" -c "$CODE" 2>/dev/null | head -n 1 >/dev/null; echo ${{PIPESTATUS[0]}}'
        done = subprocess.run(
            ["bash", "-c", shell], capture_output=True, text=True, env=environment(CODE=code)
        )
        statuses.append(done.stdout)
    assert statuses[0] == statuses[1]


def test_interrupt_while_unpickling() -> None:
    code = textwrap.dedent(
        """
        import pickle, sys
        data = pickle.dumps([{str(i): [i]} for i in range(1000)])
        print("ready", flush=True)
        try:
            while True: pickle.loads(data); pickle.dumps({"a": [1, 2]})
        finally:
            print("finally", flush=True)
        """
    )
    process = subprocess.Popen(
        [HOST, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert process.returncode == -signal.SIGINT
    assert out == "finally\n" and "KeyboardInterrupt" in err


def test_faulthandler() -> None:
    for options in (["-X", "faulthandler"], ["-I", "-Xfaulthandler"]):
        done = run(*options, "-c", "import os; os.kill(os.getpid(), 11)")
        assert done.returncode == -signal.SIGSEGV
        assert "Fatal Python error: Segmentation fault" in done.stderr


def test_malloc_choice() -> None:
    code = "import _testcapi, json; print(json.dumps(_testcapi.pymem_getallocatorsname()))"
    if run("-c", "import _testcapi", program=PYTHON).returncode:
        pytest.skip("no _testcapi")
    assert said("-c", code) == "pymalloc"
    assert said("-c", code, env={"PYTHONMALLOC": "malloc"}) == "malloc"
    assert said("-I", "-c", code, env={"PYTHONMALLOC": "malloc"}) == "pymalloc"
    assert said("-I", "-X", "torshi.allocator=malloc", "-c", code) == "malloc"
    assert said("-X", "torshi.allocator=malloc_debug", "-c", code) == "malloc_debug"


# ---- the engine in it ----------------------------------------------------------------------------

WHICH = """
import json, os, sys, _pickle, _torshi_stock_pickle as stock, pickle
print(json.dumps([_pickle.Pickler is stock.Pickler, os.environ.get("TORSHI"),
    os.environ.get("TORSHI_PLUGINS"), sys.executable, "_torshi" in sys.builtin_module_names,
    pickle.dumps({i: i for i in range(200)}) == stock.dumps({i: i for i in range(200)})]))
"""


def test_modes() -> None:
    assert said("-c", WHICH) == [False, None, None, HOST, True, False]
    assert said("-X", "torshi=standard", "-c", WHICH)[:2] == [False, "standard"]
    assert said("-X", "torshi=standard", "-c", WHICH)[5] is True
    assert said("-X", "torshi=off", "-c", WHICH)[:2] == [True, "off"]
    assert said("-c", WHICH, env={"TORSHI": "off"})[:2] == [True, "off"]
    assert said("-I", "-c", WHICH, env={"TORSHI": "off"})[:2] == [True, "off"]
    assert said("-X", "torshi=chunked", "-c", WHICH, env={"TORSHI": "off"})[:2] == [False, "chunked"]


@pytest.mark.parametrize(
    "words, variables, named",
    [
        (["-X", "torshi=fast"], {}, "chunked, standard or off"),
        (["-X", "torshi"], {}, "chunked, standard or off"),
        ([], {"TORSHI": "fast"}, "TORSHI=fast"),
        (["-X", "torshi.plugin=/no/such.so"], {}, "/no/such.so"),
        ([], {"TORSHI_PLUGINS": "/no/such.so"}, "/no/such.so"),
        (["-X", "torshi.allocator=x"], {}, "torshi.allocator"),
        (["-X", "torshi.internals=x"], {}, "torshi.internals"),
        (["-X", "torshi.unknown=x"], {}, "torshi.unknown"),
    ],
)
def test_bad_settings(words: list[str], variables: dict[str, str], named: str) -> None:
    done = run(*words, "-c", "print('ran')", env=variables)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("torshi: ")
    assert named in done.stderr


def test_optional_plugin_may_be_missing(tmp_path: Path) -> None:
    words = ["-X", "torshi.plugin=?missing.so", "-c", WHICH]
    assert said(*words, cwd=tmp_path)[2] == f"?{tmp_path}/missing.so"


def test_version_and_help() -> None:
    theirs = run("--version", program=PYTHON).stdout
    for option in ("-V", "--version", "-VV"):
        out = run(option).stdout
        assert out.startswith(theirs.split()[0]) and "Torshi " in out
    for option in ("-h", "--help", "-?"):
        out = run(option).stdout
        assert "usage:" in out and "-X torshi=MODE" in out and "TORSHI_PLUGINS" in out
    assert run("-c", "print(1)", "-V").stdout == "1\n"


CHILDREN = """
import concurrent.futures, json, multiprocessing, os, pickle, subprocess, sys

def look(_=None):
    import _pickle, _torshi_stock_pickle as stock
    data = pickle.dumps({i: i for i in range(200)})
    return [_pickle.Pickler is stock.Pickler, os.environ.get("TORSHI"), len(data)]

if __name__ == "__main__":
    told = []
    for method in ("fork", "spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
            told += pool.map(look, [0])
        with context.Pool(1) as pool:
            told += pool.map(look, [0])
    code = f"import sys; sys.path.insert(0, {os.path.dirname(__file__)!r}); import json, children; print(json.dumps(children.look()))"
    for options in ([], ["-I"], ["-E", "-s"]):
        done = subprocess.run([sys.executable, *options, "-c", code], capture_output=True, check=True)
        told.append(json.loads(done.stdout))
    print(json.dumps([look(), told]))
"""


@pytest.mark.parametrize("mode", ["chunked", "standard", "off"])
def test_children_are_hosts_with_the_same_settings(tmp_path: Path, mode: str) -> None:
    (tmp_path / "children.py").write_text(CHILDREN)
    own, told = said("-X", f"torshi={mode}", str(tmp_path / "children.py"))
    assert own[0] == (mode == "off")
    assert told == [own] * 9


def test_package_is_found_everywhere(tmp_path: Path) -> None:
    code = "import torshi, json; print(json.dumps([torshi.__file__, torshi.__spec__.name]))"
    want = [str(BUILD / "lib/torshi/__init__.py"), "torshi"]
    for options in ([], ["-I"], ["-S"], ["-I", "-S"], ["-P"]):
        assert said(*options, "-c", code, cwd=tmp_path) == want
    bare = "import sys; sys.path[:] = [p for p in sys.path if p.startswith(sys.base_prefix)]; "
    assert said("-c", bare + code) == want
    link = tmp_path / "python-by-another-name"
    link.symlink_to(HOST)
    assert said("-I", "-c", code, program=str(link)) == want
    assert said("-X", "torshi=off", "-c", code) == want


def test_package_in_a_sub_interpreter() -> None:
    code = textwrap.dedent(
        """
        try: import _interpreters as si
        except ImportError: import _xxsubinterpreters as si
        body = "import torshi, pickle; d = {i: i for i in range(300)}; assert pickle.loads(pickle.dumps(d)) == d"
        for i in range(5):
            s = si.create()
            error = si.run_string(s, body)
            assert error is None, error
            si.destroy(s)
        print('"fine"')
        """
    )
    assert said("-c", code) == "fine"


def test_package_is_imported_by_many_threads_at_once() -> None:
    code = textwrap.dedent(
        """
        import pickle, sys, threading
        sys.setswitchinterval(1e-6)
        data = bytes.fromhex(sys.argv[1])
        wrong = []
        barrier = threading.Barrier(8)
        def load():
            barrier.wait()
            try: pickle.loads(data)
            except BaseException as e: wrong.append(repr(e))
        threads = [threading.Thread(target=load) for _ in range(8)]
        for t in threads: t.start()
        for t in threads: t.join()
        import json; print(json.dumps(wrong))
        """
    )
    dump = "import pickle, json; print(json.dumps(pickle.dumps({i: i for i in range(300)}).hex()))"
    data = said("-c", dump)
    assert b"torshi" in bytes.fromhex(data)
    for _ in range(10):
        assert said("-c", code, data) == []


@pytest.mark.parametrize("how", [[], ["--copies"]])
def test_virtual_environments(tmp_path: Path, how: list[str]) -> None:
    venv = tmp_path / "venv"
    done = run("-m", "venv", "--without-pip", *how, str(venv))
    assert done.returncode == 0, done.stderr
    code = (
        "import sys, json, _pickle, torshi, only_here, pickle, os\n"
        "print(json.dumps([sys.prefix, sys.base_prefix == sys.prefix, sys.executable,"
        " os.access(sys._base_executable, os.X_OK), torshi.__file__,"
        " pickle.loads(pickle.dumps({i: i for i in range(300)})) == {i: i for i in range(300)}]))"
    )
    library = venv / f"lib/python3.{sys.version_info[1]}/site-packages"
    (library / "only_here.py").write_text("")
    for name in ("python", "python3", "torshi", f"python3.{sys.version_info[1]}"):
        program = str(venv / "bin" / name)
        for options in ([], ["-I"]):
            got = said(*options, "-c", code, program=program)
            package = str(BUILD / "lib/torshi/__init__.py")
            assert got == [str(venv), False, program, True, package, True]
    # an environment made from within one, and a child of it
    inner = tmp_path / "inner"
    program = str(venv / "bin" / "python")
    assert run("-m", "venv", "--without-pip", str(inner), program=program).returncode == 0
    program = str(inner / "bin" / "python")
    child = "import sys, subprocess; sys.exit(subprocess.call([sys.executable, '-c', 'import _torshi']))"
    assert run("-c", child, program=program).returncode == 0


def test_host_linked_into_an_ordinary_environment(tmp_path: Path) -> None:
    assert run("-m", "venv", "--without-pip", str(tmp_path), program=PYTHON).returncode == 0
    link = tmp_path / "bin" / "torshi"
    link.symlink_to(HOST)
    code = "import sys, json, _torshi; print(json.dumps([sys.prefix, sys.executable, sys._base_executable]))"
    assert said("-c", code, program=str(link)) == [str(tmp_path), str(link), os.path.realpath(HOST)]


def test_installed_layout(tmp_path: Path) -> None:
    """bin/torshi, lib/torshi/chunked.so, lib/torshi/torshi: what `scons install` makes."""
    (tmp_path / "bin").mkdir()
    shutil.copy(HOST, tmp_path / "bin/torshi")
    shutil.copytree(BUILD / "lib/torshi", tmp_path / "lib/torshi/torshi")
    shutil.copy(BUILD / "chunked.so", tmp_path / "lib/torshi/chunked.so")
    code = "import torshi, json; print(json.dumps([torshi.__file__, len(torshi.registry())]))"
    package, rows = said("-I", "-c", code, program=str(tmp_path / "bin/torshi"))
    assert package == str(tmp_path / "lib/torshi/torshi/__init__.py")
    assert rows > 0


def test_alone(tmp_path: Path) -> None:
    """Without its plugin the host says so, and runs in the other modes."""
    program = str(tmp_path / "torshi")
    shutil.copy(HOST, program)
    done = run("-c", "pass", program=program)
    assert done.returncode == 2 and "chunked.so" in done.stderr and done.stderr.count("\n") == 1
    assert run("--version", program=program).returncode == 0
    for mode in ("standard", "off"):
        assert said("-X", f"torshi={mode}", "-c", "import pickle; print(len(pickle.dumps(1)))",
                    program=program) == 5  # fmt: skip


def test_stock_pickle_stays_importable() -> None:
    code = textwrap.dedent(
        """
        import _torshi_stock_pickle as stock, _pickle, sys, json
        assert sys.modules["_pickle"] is _pickle and stock.Pickler is not _pickle.Pickler
        assert stock.loads(stock.dumps([1])) == [1]
        print("true")
        """
    )
    assert said("-c", code) is True
    assert said("-c", "import _pickle\n" + code) is True


def test_programs_of_the_standard_library(tmp_path: Path) -> None:
    (tmp_path / "t.py").write_text("print(1)\n")
    both("-m", "json.tool", "--compact", input='{"a":  1}')
    both("-m", "py_compile", str(tmp_path / "t.py"))
    both("-m", "timeit", "-h")
    both("-m", "pickletools", "-h")
    both("-m", "zipfile", "-h")
