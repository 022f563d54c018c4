"""Run by Flux's Python: checks of discovery among brokers that answer as each check says."""

import errno
from unittest.mock import Mock

import checks

import TreePool  # noqa: F401 (makes treepool importable)

from hwlocfile import Made  # isort: skip
from treepool.discovery.describe import digest
from treepool.flux import digests
from treepool.flux.discover import FEW, IN_FLIGHT, Discovery
from treepool.flux.hardware import TOPO_GET
from treepool.rfc import idset
from treepool.rfc.rset import ResourceSet

XML = Made().xml().encode()


class Brokers:
    """A handle that keeps what is asked, by topic and rank, until ``answer`` answers it."""

    def __init__(self):
        self.asked = []
        self.timer_watcher_create = Mock(return_value=Mock())

    def rpc(self, topic, payload=None, nodeid=None, flags=0):
        return Future(self, topic, nodeid)

    def open(self, topic):
        return [future for future in self.asked if future.topic == topic]

    def refuse_programs(self):
        for future in self.open(digests.EXEC):
            future.end(OSError(errno.ENOSYS, "no such service"))


class Future:
    def __init__(self, brokers, topic, rank):
        self.brokers, self.topic, self.rank = brokers, topic, rank

    def then(self, callback, argument):
        self.callback, self.argument = callback, argument
        self.brokers.asked.append(self)

    def end(self, value):
        self.value = value
        self.brokers.asked.remove(self)
        self.callback(self, self.argument)

    def tell(self, **answer):
        """Answer, and perhaps answer again."""
        self.value = answer
        self.callback(self, self.argument)

    def get(self):
        if isinstance(self.value, Exception):
            raise self.value
        return self.value

    get_str = get

    def reset(self):
        pass


def discovery(ranks):
    """Discovery of *ranks* nodes like ``Made``, and the brokers that it asks."""
    brokers, received = Brokers(), []
    R = ResourceSet.read({
        "version": 1,
        "execution": {
            "R_lite": [{"rank": f"0-{ranks - 1}", "children": {"core": "0-15"}}],
            "nodelist": [f"n[0-{ranks - 1}]"],
        },
    })  # fmt: skip
    made = Discovery(brokers, R, lambda *batch: received.append(batch), False)
    return made, brokers


def say_digest(future, name):
    future.tell(io={"stream": "stdout", "data": f"{name.hex()}\n"})
    future.end(OSError(errno.ENODATA, "done"))


def check_thousands_that_come_up_where_no_node_can_tell_a_digest():
    made, brokers = discovery(11136)
    made.want(idset.from_ids(range(FEW + 100)))
    brokers.refuse_programs()
    made.want(idset.from_ids(range(11136)))
    assert not brokers.open(digests.EXEC)
    assert len(brokers.open(TOPO_GET)) == IN_FLIGHT


def few_answered(ranks):
    """A discovery whose first nodes are known as flat, with the others' programs open."""
    made, brokers = discovery(ranks)
    made.want(idset.from_ids(range(ranks)))
    while brokers.open(TOPO_GET):
        brokers.open(TOPO_GET)[0].end("")
    return made, brokers


def check_nodes_whose_digest_is_not_that_of_their_xml_are_asked_all_at_once():
    _, brokers = few_answered(FEW + 20)
    for future in brokers.open(digests.EXEC):
        say_digest(future, bytes(32))
    (first,) = brokers.open(TOPO_GET)
    first.end(XML.decode())
    assert len(brokers.open(TOPO_GET)) == 19


def check_nodes_that_were_up_first_are_waited_for_once():
    made, brokers = discovery(3)
    made.want(0b011)
    assert made.first == 0b011
    for answered in (0b01, 0b11):
        brokers.open(TOPO_GET)[0].end("")
        made._on_timer()
        assert made.first == 0b011 & ~answered
    made.want(0b110)  # one went down and up
    assert (made.unknown, made.first) == (0b110, 0)


def check_nodes_with_the_digest_of_xml_that_came_are_not_asked():
    made, brokers = few_answered(FEW + 20)
    for future in brokers.open(digests.EXEC):
        say_digest(future, digest(XML))
    (first,) = brokers.open(TOPO_GET)
    first.end(XML.decode())
    assert not brokers.open(TOPO_GET)
    assert made._quiet


def check_a_program_that_writes_without_end_is_not_waited_for():
    _, brokers = few_answered(FEW + 1)
    (endless,) = brokers.open(digests.EXEC)
    endless.tell(io={"stream": "stdout", "data": 200 * "y\n"})
    assert [future.rank for future in brokers.open(TOPO_GET)] == [FEW]


def check_an_answer_without_what_it_should_have_is_no_digest():
    for garbage in (None, [], {"io": 5}, {"io": {"stream": "stdout", "data": None}}):
        _, brokers = few_answered(FEW + 1)
        (future,) = brokers.open(digests.EXEC)
        future.value = garbage
        future.callback(future, future.argument)
        future.end(OSError(errno.ENODATA, "done"))
        assert [future.rank for future in brokers.open(TOPO_GET)] == [FEW]


if __name__ == "__main__":
    checks.run(globals())
