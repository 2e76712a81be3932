"""RunTest: a test is a build target. Its result, counts and all, is the stamp."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from SCons.Action import Action
from SCons.Node.FS import Base, File

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import testrun  # noqa: E402


# (alias, name) of each test declared in this run of SCons.
declared: list[tuple[str, str]] = []


def exists(env) -> bool:
    return True


def _strings(env, words) -> list[str]:
    """Nodes become absolute paths, so that a test may run in any folder."""
    words = env.Flatten(list(words))
    return [w.abspath if isinstance(w, Base) else env.subst(str(w)) for w in words]


def run_test(env, name, command, depends=(), counter="exit", timeout=900, environment={},
             alias="test", cwd=None):
    """
    Declare a test.

    name         what it is called in the summary, such as "unit" or "python/test_api"
    command      words and nodes; the files are dependencies
    counter      how its output is read: a key of testrun.COUNTERS
    environment  additional variables
    alias        the target of `scons` that it belongs to, or several
    Returns the node of its result file.
    """
    stamp = env["OUT"].File(f"tests/{name}.json")
    words = _strings(env, command)
    files = [w for w in env.Flatten(list(command)) if isinstance(w, File)]
    variables = {k: _strings(env, [v])[0] for k, v in environment.items()}

    def action(target, source, env):
        result_file = Path(target[0].abspath)
        failed_file = result_file.with_suffix(".failed.json")
        log = result_file.with_suffix(".log")
        failed_file.unlink(missing_ok=True)
        result = testrun.run(name, words, log, counter, timeout, variables, cwd)
        # One write, for another test may end at the same time.
        sys.stdout.write(testrun.describe(result, log) + "\n")
        sys.stdout.flush()
        if result.counts.failed:
            result.save(failed_file)
            return 1
        result.save(result_file)
        return 0

    key = repr((words, counter, sorted(variables.items())))
    target = env.Command(stamp, files, Action(action, lambda *_: None, varlist=["TEST_KEY"]),
                         TEST_KEY=key)
    env.Depends(target, list(depends))
    for one in [alias] if isinstance(alias, str) else alias:
        env.Alias(one, target)
        declared.append((one, name))
    return target


def write_manifest(env) -> None:
    """List every test known to this build, so that one that did not run is noticed."""
    folder = Path(env["OUT"].abspath) / "tests"
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"{alias} {name}\n" for alias, name in sorted(declared)]
    (folder / "manifest.txt").write_text("".join(lines))


def generate(env) -> None:
    env.AddMethod(run_test, "RunTest")
    env.AddMethod(write_manifest, "WriteTestManifest")
