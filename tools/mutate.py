#!/usr/bin/env python3
"""Holds the tests against faults: each of tests/mutations.txt is compiled, linked in place of what the simulator has,
and has to make the tests that are named there fail. The sources and the build's own files stay as they are.

usage: tools/mutate.py [BUILD [FUNCTION...]]     (default: build, all functions)

BUILD is a folder of cmake (Ninja); what is needed of foretrain_tests is built in it. A line a mutant; exit status 1 where one is left
alive, 2 where one does not apply, does not compile, or its tests fail without it.
"""
import os
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "tests" / "mutations.txt"
MEMORY = 8 << 30


class Failed(Exception):
    pass


def read_list():
    """Dictionaries of function, tests, file, before, after."""
    mutants, state, before = [], {}, None
    for number, line in enumerate(LIST.read_text().splitlines(), 1):
        word, _, rest = line.partition(" ")
        if not line or line.startswith("#"):
            continue
        if word in ("function", "tests", "file") and before is None:
            state[word] = rest
        elif word == "-" and before is None:
            before = rest
        elif word == "+" and before is not None:
            mutants.append(dict(state, before=before, after=rest))
            before = None
        else:
            raise Failed(f"{LIST.name}:{number}: expected 'function', 'tests', 'file', or '-' and '+' in turn")
    if before is not None:
        raise Failed(f"{LIST.name}: the last '-' has no '+'")
    return mutants


def mutated(mutant):
    text = (ROOT / mutant["file"]).read_text()
    count = text.count(mutant["before"])
    if count != 1:
        raise Failed(f"{mutant['file']} has {count} times, not once: {mutant['before']}")
    return text.replace(mutant["before"], mutant["after"])


def ninja(build, *arguments):
    done = subprocess.run(["ninja", "-C", build, *arguments], text=True, capture_output=True)
    if done.returncode != 0:
        raise Failed(f"ninja {' '.join(arguments)} fails:\n{done.stdout}{done.stderr}")
    return done.stdout


def build_commands(build):
    """The command that compiles each source, and the one that links the tests."""
    compiles, link = {}, None
    for line in ninja(build, "-t", "commands", "foretrain_tests").splitlines():
        words = [word for word in shlex.split(line) if word not in (":", "&&")]
        if "-c" in words:
            compiles[words[words.index("-c") + 1]] = words
        elif "-o" in words and words[words.index("-o") + 1] == "foretrain_tests":
            link = words
    if link is None:
        raise Failed(f"{build} does not link foretrain_tests")
    return compiles, link


OBJECTS = "tests/CMakeFiles/foretrain_tests.dir/"


def link_of(tests, link):
    """The command that links these tests alone."""
    wanted = {OBJECTS + test + ".o" for test in tests.split()} | {OBJECTS + "main.cpp.o"}
    missing = wanted - set(link)
    if missing:
        raise Failed(f"foretrain_tests has no {' '.join(sorted(missing))}")
    shared = OBJECTS + "support/"
    return [word for word in link if not word.startswith(OBJECTS) or word in wanted or word.startswith(shared)]


def with_output(command, output):
    """The command with another file after -o, and no dependency file that the build reads."""
    out = list(command)
    out[out.index("-o") + 1] = str(output)
    for option in ("-MF", "-MT"):
        if option in out:
            out[out.index(option) + 1] = str(output) + ".d"
    return out


def run_tests(program, seconds):
    """Whether they pass, and how they ended."""
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        done = subprocess.run([str(program), "--abort-after=1"], cwd=ROOT, text=True, timeout=seconds,
                              capture_output=True, preexec_fn=limit)
    except subprocess.TimeoutExpired:
        return False, f"no end within {seconds:.0f} s"
    if done.returncode < 0:
        return False, f"signal {-done.returncode}"
    for line in done.stdout.splitlines():
        if "TEST CASE:" in line:
            return done.returncode == 0, line.partition("TEST CASE:")[2].strip()
    return done.returncode == 0, done.stdout.strip().rpartition("\n")[2]


def linked(link, objects, program, build):
    """Links with these objects before the simulator's archive: what they define is not taken from there."""
    command = with_output(link, program)
    at = command.index(str(program)) + 1
    done = subprocess.run(command[:at] + objects + command[at:], cwd=build, text=True, capture_output=True)
    if done.returncode != 0:
        raise Failed(f"{program.name} does not link:\n{done.stderr}")


def try_mutant(mutant, compiles, link, build, seconds):
    source = ROOT / mutant["file"]
    with tempfile.TemporaryDirectory(prefix="mutant-", dir=build) as folder:
        copy, compiled, program = Path(folder, source.name), Path(folder, "mutant.o"), Path(folder, "tests")
        copy.write_text(mutated(mutant))
        command = with_output(compiles[str(source)], compiled)
        command[command.index("-c") + 1] = str(copy)
        # Not the build's optimization: it takes longer than the tests.
        done = subprocess.run(command + ["-O0", "-Wno-error"], cwd=build, text=True, capture_output=True)
        if done.returncode != 0:
            raise Failed(f"{mutant['file']} does not compile with: {mutant['after']}\n{done.stderr}")
        linked(link, [str(compiled)], program, build)
        passed, how = run_tests(program, seconds)
    return not passed, how


def main():
    build = Path(sys.argv[1] if len(sys.argv) > 1 else "build").resolve()
    functions = sys.argv[2:]
    mutants = read_list()
    for name in functions:
        if name not in {mutant["function"] for mutant in mutants}:
            raise Failed(f"there is no function '{name}' in {LIST.name}")
    mutants = [mutant for mutant in mutants if not functions or mutant["function"] in functions]
    for mutant in mutants:
        mutated(mutant)  # all apply, or none is tried
    compiles, link = build_commands(build)
    links = {tests: link_of(tests, link) for tests in {mutant["tests"] for mutant in mutants}}
    needed = {word for one in links.values() for word in one if word.startswith(OBJECTS) or word.endswith(".a")}
    ninja(build, *sorted(word for word in needed if not word.startswith("/")))
    seconds = {}
    for tests, command in links.items():
        with tempfile.TemporaryDirectory(prefix="mutant-", dir=build) as folder:
            program = Path(folder, "tests")
            linked(command, [], program, build)
            begin = time.monotonic()
            passed, how = run_tests(program, 600)
        if not passed:
            raise Failed(f"without a mutant the tests fail: {how}")
        seconds[tests] = 30 + 30 * (time.monotonic() - begin)
    alive = {}
    with ThreadPoolExecutor(int(os.environ.get("JOBS", os.cpu_count() or 1))) as pool:
        tried = [pool.submit(try_mutant, mutant, compiles, links[mutant["tests"]], build, seconds[mutant["tests"]])
                 for mutant in mutants]
        for mutant, result in zip(mutants, tried):
            is_caught, how = result.result()
            caught, of = alive.get(mutant["function"], (0, 0))
            alive[mutant["function"]] = (caught + is_caught, of + 1)
            print(f"{'caught' if is_caught else 'ALIVE '} | {mutant['file']} | {mutant['before']} -> {mutant['after']} | "
                  f"{how}", flush=True)
    for function, (caught, of) in alive.items():
        print(f"{function}: {caught} of {of} caught")
    return 0 if all(caught == of for caught, of in alive.values()) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as failed:
        print(f"mutate.py: {failed}", file=sys.stderr)
        sys.exit(2)
