"""Commands on a private machine: a view of this one whose files nobody else sees change.

What they write to /usr/local, /etc, /opt, /var or /root is in a directory of the test's, and is
there for the next command. So the Flux of the machine can be changed, and nothing of it is.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

#: What is private: a layer over the machine's own.
PLACES = ("usr/local", "etc", "opt", "var", "root")

#: Mounts the layers below $1, and a home for root without a profile; says so, and waits until its
#: stdin closes.
_HOLD = r"""
layers=$1
mount -t tmpfs none /mnt || exit
for place in PLACES; do
    mkdir -p "$layers/$place/upper" "$layers/$place/work" || exit
    mount -t overlay overlay "/$place" \
        -o "lowerdir=/$place,upperdir=$layers/$place/upper,workdir=$layers/$place/work" || exit
done
echo ready
exec cat
""".replace("PLACES", " ".join(PLACES))


class Machine:
    """A private machine whose changes are below *layers*, a directory, until it is closed."""

    def __init__(self, layers):
        self.layers = Path(layers)
        self._holder = subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", _HOLD, "hold", str(layers)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._holder.stdout.readline() == "ready\n"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._holder.communicate()

    def command(self, script, user=None):
        """The words that run a shell *script* there, by root, or by *user*, a number."""
        words = ["sh", "-ec", f"cd /\n{script}"]
        if user is not None:
            words = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *words]
        return ["nsenter", "--mount", f"--target={self._holder.pid}", *words]

    def run(self, script, env=None, timeout=300, user=None):
        """The finished process of a shell *script*."""
        return subprocess.run(
            self.command(script, user),
            env=env or after_login(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    def sh(self, script, **more):
        """What *script* prints; it must succeed."""
        done = self.run(script, **more)
        assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
        return done.stdout

    def changed(self):
        """The files that are not as on the machine itself, in order."""
        found = []
        for place in PLACES:
            upper = self.layers / place / "upper"
            for directory, _, files in os.walk(upper):
                found += [Path("/", place, Path(directory, f).relative_to(upper)) for f in files]
        return sorted(map(str, found))


def after_login():
    """An environment as after login."""
    paths = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin")
    kept = {name: os.environ[name] for name in os.environ if name.startswith("PIP_")}
    return {**kept, "PATH": ":".join(paths), "HOME": "/mnt", "LC_ALL": "C.UTF-8"}


def needs_private_machine():
    """Skips the test where there can be no private machine."""
    if os.geteuid() != 0 or not shutil.which("unshare"):
        pytest.skip("a private view of the file system needs root and unshare")
    try_it = ["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"]
    if subprocess.run(try_it, capture_output=True).returncode != 0:
        pytest.skip("this container may not mount anything")
