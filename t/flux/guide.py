"""Guides for administrators, as tests: what they have the reader do, and a machine to do it on."""

import atexit
import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from functools import lru_cache

import attrs

from broker import REPOSITORY
from hwlocfile import Device, Made, in_place
from private import Machine, after_login, needs_private_machine

#: Restarts of the system instance.
RESTART = "<!-- the test restarts Flux -->"

#: Both nodes of the guides are this machine, whatever their names are and how many cores it has.
#: Flux's configuration is in /etc, wherever it was built for. What the reader installs is this
#: checkout; SOMEBODY has a home.
PREPARE = """
conf=$(flux config builtin confdir)
mkdir -p /etc/flux/system/conf.d /var/somebody $conf/system
[ -e $conf/system/conf.d ] || ln -s /etc/flux/system/conf.d $conf/system/conf.d
printf '[resource]\\nnoverify = true\\n' >/etc/flux/system/conf.d/zz-test.toml
echo 'shell.options["cpu-affinity"] = "off"' >$conf/shell/lua.d/zz-test.lua
cp -r {wheels} /var/wheels
chmod -R a+rX /var/wheels; chmod 777 /var/somebody
flux start flux submit --dry-run true
"""

#: The nodes of the guides: two sockets of two NUMA domains with four cores each.
NODE = Made(
    devices=[
        Device("0000:41:00.0", 0, backends=[("nvml0", "NVML")]),
        Device("0000:c1:00.0", 3, backends=[("nvml1", "NVML")]),
    ]
)

SOMEBODY = 12345


@attrs.frozen
class Step:
    """A file, or commands, with the heading that they are under."""

    heading: str
    kind: str
    text: str


def steps(guide, table=""):
    """What *guide* has the reader do, in order; section *table* has commands in a table."""
    heading, found = "", []
    cell = r"\| `((?:flux|treepool) [^`\n]*)` \|"
    parts = rf"^(## [^\n]*)$|^```(\w*)\n(.*?)^```$|^({re.escape(RESTART)})$|{cell}"
    for match in re.finditer(parts, guide, re.M | re.S):
        title, language, block, restart, cell = match.groups()
        if title:
            heading = title[3:]
        elif restart:
            found.append(Step(heading, "restart", ""))
        elif language == "sh" or (language == "toml" and block.startswith("# /")):  # a file
            found.append(Step(heading, language, block))
        elif cell and heading == table:
            found.append(Step(heading, "sh", cell.replace("\\|", "|")))
    return found


def write(machine, step):
    """Write the file of *step*, whose first line names it."""
    path = step.text.splitlines()[0][2:]
    machine.sh(f"cat >{path} <<'END'\n{step.text}\nEND")


@lru_cache(None)
def wheels():
    """A folder with this checkout and all that it needs, as pip finds them elsewhere."""
    folder = tempfile.mkdtemp(prefix="treepool-wheels-")
    atexit.register(shutil.rmtree, folder)
    build = [sys.executable, "-m", "pip", "wheel", "-q", "-w", folder, str(REPOSITORY)]
    subprocess.run(build, check=True, capture_output=True)
    return folder


@contextmanager
def prepared(folder):
    """A private machine as readers have it, its system instance, and their environment.

    What is kept of it is in *folder*.
    """
    needs_private_machine()
    xml = folder / "node.xml"
    xml.write_text(NODE.xml())
    env = {**after_login(), "PIP_FIND_LINKS": "/var/wheels", "PIP_NO_INDEX": "1"}
    with Machine(folder / "layers") as machine:
        machine.sh(PREPARE.format(wheels=wheels()))
        yield machine, System(machine, xml), env


class System:
    """The system instance of *machine*: two brokers that take themselves for nodes of the guide."""

    def __init__(self, machine, xml):
        self.machine, self.process = machine, None
        self.env = {**after_login(), **in_place(xml)}

    def restart(self):
        self.stop()
        start = "exec flux start --test-size=2 --test-hosts='node[0-1]' --test-exit-mode=leader"
        conf = "--config-path=/etc/flux/system/conf.d"
        self.process = subprocess.Popen(
            self.machine.command(f"{start} {conf} sh -c 'echo $FLUX_URI; exec cat'"),
            env=self.env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.uri = self.process.stdout.readline().strip()
        assert self.uri

    def stop(self):
        if self.process:
            self.process.communicate(timeout=60)

    def run(self, script, env):
        """The finished process of *script*, from the first start on in the instance."""
        if self.process:
            env = {**env, "FLUX_URI": self.uri}
        return self.machine.run(script, env=env)
