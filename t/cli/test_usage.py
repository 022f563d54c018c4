"""What is wrong with a command line is told in one line, and its status is 2: a table for all."""

import shlex

import pytest

#: A command line, and words of what is told.
USAGE = [
    ("", "--help"),
    ("nonsense", "--help"),
    ("alloc --nonsense slot=1/core", "--help"),
    ("alloc --cluster", "--help"),
    ("alloc --locality '' slot=1/core", "--help"),
    ("alloc --policy '\x1b[31m\n' slot=1/core", "--help"),
    ("validate", "--help"),
    ("aloc", "did you mean 'alloc'?"),
    ("--versoin", "did you mean '--version'?"),
    ("alloc --jsn slot=1/core", "did you mean '--json'?"),
    ("alloc --polcy=first-fit slot=1/core", "did you mean '--policy'?"),
    ("alloc --locality prefered slot=1/core", "did you mean 'preferred'?"),
    ("window remov", "did you mean 'remove'?"),
    ("verify -R x", "did you mean '--R'?"),
    ("show fabric.json", "did you mean '-R fabric.json'?"),
    ("alloc --straddle -1 slot/core", "--straddle: not a number from 0 to 1000"),
    ("alloc --straddle 4 --policy best-fit slot/core", "policy best-fit does not weigh locality"),
    ("alloc --mix '0*slot/gpu' slot/core", "argument --mix: '0*slot/gpu': a weight is above 0"),
    (
        "alloc --policy gpu-sparing slot/core",
        "unknown policy 'gpu-sparing', now packing",
    ),
    ("alloc --constraint '{' slot/core", "--constraint"),
    ('alloc --constraint \'{"ranks": ["b"]}\' slot/core', "--constraint"),
    ("alloc --option level slot/core", "NAME=VALUE"),
    ("alloc --option level=numa --option level=socket slot/core", "'level' is given twice"),
    ("alloc", "SHAPE"),
    ("alloc -R - --jobspec -", "stdin"),
    ("bind --rank=0 true", "--rank goes with --R"),
    ("completion tcsh", "bash"),
    ("flux-env --install --check", "not allowed"),
    ("flux-env --json --install", "--json"),
    ("replay", "TRACE"),
    ("replay x.jsonl --synthetic 3", "TRACE"),
    ("replay x.jsonl", "cannot be read"),
    ("replay - -R -", "stdin"),
    ("replay x.jsonl --starts", "--starts: only with --json"),
    ("replay --synthetic 3 -R x -R x", "argument -R: a file is given twice"),
    ("replay --synthetic 3 --add 0*0", "'0*0': NUMBER*NODE is needed, such as 10*n0"),
    ("replay --synthetic 3 --add n0", "'n0': NUMBER*NODE is needed"),
    ("replay x --nodes 0", "'0': NUMBER[,cores=NUMBER][,gpus=NUMBER] is needed"),
    ("replay x --nodes 4 -R y", "not allowed"),
    ("replay --synthetic 3 --nodes 9999999,cores=1", "cannot be made (see --nodes)"),
    ("replay --synthetic 3 --threads-per-core 0", "--threads-per-core"),
    ("replay x --column gpu=y", "unknown part 'gpu' (did you mean 'gpus'?)"),
    ("alloc -R a -R b slot/core", "argument -R: is given twice"),
    ("replay --synthetic 1e3", "1e3"),
    ("replay --synthetic 3 --seed -1", "--seed"),
    ("replay --synthetic 3 --load nan", "nan"),
    ("replay --synthetic 3 --compare reservation-depth=0", "reservation-depth=0"),
    ("replay --synthetic 3 --compare node-policy=best-fit,straddle=4", "does not weigh"),
    ("replay --synthetic 3 --compare 'mix=1*slot/gpu,0*slot'", "'0*slot': a weight is above 0"),
    ("replay --synthetic 3 --compare ''", "unknown option"),
    ("replay --synthetic 3 --compare polcy=easy", "did you mean 'policy'?"),
    ("replay --synthetic 3 --compare policy", "policy=VALUE is needed"),
    ("replay --synthetic 3 --compare fabric=off,fabric=on", "fabric is given twice"),
    ("replay --synthetic 3 --svg ''", "name of a file"),
    ("replay --synthetic 3 --html no/such/folder/x.html", "cannot be written"),
    ("verify --pid=0", "is not a process id"),
    ("verify --pid 999999999", "there is no such process"),
    ("show --ranks 16", "--ranks"),
    ("show --down x", "argument --down: 'x' is no host of the cluster"),
    ("show --drained x", "--drained"),
    ("show --svg - --html -", "stdout"),
    ("show --svg no/such/folder/a.svg", "cannot be written"),
    ("show --svg '\x00'", "cannot be written"),
    ("show --instance --policy best-fit", "argument --policy: the instance has its own"),
    ("show --instance --locality preferred", "argument --locality: the instance has its own"),
    ("show --instance --down 1", "argument --down: the instance has its own"),
    ("show --instance --jobs slot/core", "argument --jobs: the instance has its own"),
    ("explain", "SHAPE"),
    ("explain slot=1/core --down 99", "--down: ranks not in the cluster: 99"),
    ("explain slot=1/core --down ''", "--down: '' has no ranks"),
    ("explain slot=1/core -R ''", "'': cannot be read: No such file or directory"),
    ("explain slot=1/core --jobs @", "'': cannot be read: No such file or directory"),
    ("explain slot=1/core --queue batch", "--queue: only a running instance has queues"),
    ("explain slot=1/core --duration x", "--duration: 'x' is not a time such as 4h"),
    ("explain slot=1/core --instance --gpu-cores 1", "--gpu-cores: the instance has"),
    ("explain --job f1 slot=1/core", "--job f1: tells the shape and all else"),
    ("advise --shape", "--shape"),
    ("advise --mix-from no.json", "no.json: cannot be read"),
    ("advise --mix-from a --json", "argument --mix-from: not with --shape, --mix or --json"),
    ("advise -R - --mix-from -", "only one of the files can be stdin"),
    ("replay --synthetic 3" + 13 * " --compare policy=easy", "more than 12"),
    ("advise --shape" + 65 * " slot=1/core", "--shape"),
    ("advise --mix " + " ".join(f"slot/core={n}" for n in range(1, 66)), "65 different shapes"),
]

#: The same for what is an answer: the status is 1.
ANSWERS = [
    ("explain 'slot=['", "column 7"),
    ("explain slot=1/rack/core", "rack"),
    ("explain slot=1/core --jobs 'slot=99/node{x}'", "job 1"),
    ("explain slot=1/core --jobs 'slot=['", "job 1"),
    ("advise --shape 'slot=['", "column 7"),
    ("advise --shape slot=1/core slot=1/rack/core", "rack"),
    ("advise --mix '0*slot/gpu'", "--mix: '0*slot/gpu': a weight is above 0"),
    ("advise --mix slot/rack", "--mix: slot/rack: "),
    ("alloc --mix '1*slot/sockt{x}' slot/core", "(did you mean 'socket'?)"),
    (
        "replay --synthetic 3 --compare 'mix=1*slot/sockt{x}'",
        "--compare: mix: 'slot/sockt{x}': ",
    ),
]


@pytest.mark.parametrize(
    ("status", "words", "said"),
    [*((2, *case) for case in USAGE), *((1, *case) for case in ANSWERS)],
)
def test_a_mistake_is_told_in_one_line(treepool, tmp_path, monkeypatch, status, words, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fabric.json").touch()
    result = treepool(*shlex.split(words))
    assert result.is_one_line_error(said, status=status)
    assert result.out == ""
