"""Whom a window is for: groups and banks beside users and queues."""

import grp
import os
import pwd

from made import nodes
from treepool.flux.windownames import members, window_of
from treepool.rfc import windows
from treepool.rfc.rset import ResourceSet

ENTRY = {"name": "dat", "hosts": "n0", "start": 1000, "end": 2000}
ME = os.getuid()


def window(**more):
    said = []
    R = ResourceSet.read(nodes("0-1", "0-3", hosts="n[0-1]"))
    return window_of(windows.read({**ENTRY, **more}), R, (), said.append), said


def test_a_group_has_those_whom_it_names(monkeypatch):
    me = pwd.getpwuid(ME).pw_name
    team = grp.struct_group(("team", "x", 4711, [me, "no-such-user"]))
    monkeypatch.setattr(grp, "getgrnam", {"team": team}.__getitem__)
    assert members("team") == [ME]
    made, said = window(groups=["team"])
    assert made.admits(ME, ("batch",)) and not said
    for group in grp.getgrall():
        ids = {user.pw_uid for user in pwd.getpwall() if user.pw_name in group.gr_mem}
        monkeypatch.undo()
        assert set(members(group.gr_name)) == ids


def test_a_group_that_is_not_there_is_told():
    made, said = window(groups=["no-such-group"])
    assert said == ["window dat: there is no group 'no-such-group', or it names nobody"]
    assert not made.users


def test_a_bank_admits_its_jobs_and_jobs_without_a_bank_are_of_none():
    made, _ = window(banks=["physics"])
    assert made.admits(ME, ("batch",), "physics")
    assert not made.admits(ME, ("batch",), "") and not made.admits(ME, ("batch",), "chemistry")
