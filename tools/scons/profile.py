"""
A build with a profile: engine and plugin are compiled with counters into build/training, tools/train.py
runs them on everyday data, and gcc finds what was counted beside the objects of the release. Worth 5 to
10% on dumps and standard loads (tools/bench); `scons profile=no` builds without it, in half the time.
"""

from __future__ import annotations

import os
import subprocess
import sys

from SCons.Action import Action

COUNT = ["-fprofile-generate", "-fprofile-update=single"]
# What the training does not reach is compiled as without a profile, not for size.
USE = ["-fprofile-use", "-fprofile-partial-training"]
OLDEST_GCC = 11  # that knows -dumpdir


class Profile:
    """What the build that counts and the release share. (A plain list would be copied with its environment.)"""

    def __init__(self, training, folder: str) -> None:
        self.training = training  # the environment of the build that counts
        self.folder = folder  # of the counts
        self.counts: list = []  # their files


def exists(env) -> bool:
    return True


def _profiled_objects(env, files) -> list:
    """The objects of `files`, compiled to count, from counts, or as ever."""
    profile = env["PROFILE"]
    if not profile:
        return [env.SharedObject(f) for f in files]
    objects = []
    use = env["OUT"] != profile.training["OUT"]
    for f in files:
        # gcc tells functions apart by where it would put auxiliary files: the same for both builds,
        # and absolute, so that a checkout that was moved is made anew.
        folder = f"{profile.folder}/{os.path.dirname(f.srcnode().path)}/"
        flags = [*env["CFLAGS"], *(USE if use else COUNT), "-dumpdir", folder]
        objects += env.SharedObject(f, CFLAGS=flags)
        if use:
            counts = env.File(f"{folder}{os.path.splitext(f.name)[0]}.gcda")
            env.Depends(objects[-1], counts)
            profile.counts.append(counts)
    return objects


def _train(target, source, env) -> int:
    """Run tools/train.py (source 0) in the build that counts."""
    variables = {
        **os.environ,
        "PYTHONPATH": env["OUT"].Dir("lib").abspath,
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    for internals in ("1", "1", "0"):  # mostly as people run it
        variables["TORSHI_INTERNALS"] = internals
        status = subprocess.run([env["PYTHON"], source[0].abspath], env=variables).returncode
        if status:
            print(f"{source[0]}: exit status {status} (`scons profile=no` builds without it)")
            return 1
    return 0


def _count_first(env, folders) -> None:
    """Read the SConscripts of these folders for the build that counts. To be called before they are
    read for the release, which is followed by TrainOn()."""
    if not (env["profile"] and env["variant"] == "release" and env["cc"] == "gcc"):
        return
    if int(env["CCVERSION"].split(".")[0]) < OLDEST_GCC:
        print(f"scons: no profile, for want of gcc {OLDEST_GCC} or newer", file=sys.stderr)
        return
    training = env.Clone(OUT=env["OUT"].Dir("training"), WHOLE_PROGRAM=COUNT)
    # Counters are put in before the files become one: that can be left out.
    training["CFLAGS"] = [f for f in env["CFLAGS"] if f not in env["WHOLE_PROGRAM_CFLAGS"]]
    training.Alias = lambda *_: []  # nobody asks for these by name
    env["PROFILE"] = training["PROFILE"] = Profile(training, training["OUT"].Dir("counts").abspath)
    for folder in folders:
        training.SConscript(f"{folder}/SConscript", variant_dir=f"{env['build']}/training/obj/{folder}",
                            duplicate=0, exports={"env": training})


def _train_on(env, script) -> None:
    """Declare the training itself. SCons removes the counts first, which gcc's code would add to."""
    if env["PROFILE"]:
        training = env["PROFILE"].training
        action = Action(_train, lambda *_: f"  TRAIN   {training['OUT']}")
        training.Command(env["PROFILE"].counts, [script, training["EXTENSION"], training["PACKAGE"]], action)


def generate(env) -> None:
    env["PROFILE"] = None
    env.AddMethod(_profiled_objects, "ProfiledObjects")
    env.AddMethod(_count_first, "CountFirst")
    env.AddMethod(_train_on, "TrainOn")
