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


def test_a_group_has_those_whose_own_it_is_and_those_whom_it_names():
    own = grp.getgrgid(pwd.getpwuid(ME).pw_gid).gr_name
    assert ME in members(own)
    made, said = window(groups=[own])
    assert made.admits(ME, ("batch",)) and not said
    for group in grp.getgrall():
        named = [pwd.getpwnam(user).pw_uid for user in group.gr_mem if user in NAMES]
        assert set(named) <= set(members(group.gr_name))


NAMES = {user.pw_name for user in pwd.getpwall()}


def test_a_group_that_is_not_there_is_told():
    made, said = window(groups=["no-such-group"])
    assert said == ["window dat: there is no group 'no-such-group', or nobody is in it"]
    assert not made.users


def test_a_bank_admits_its_jobs_and_jobs_without_a_bank_are_of_none():
    made, _ = window(banks=["physics"])
    assert made.admits(ME, ("batch",), "physics")
    assert not made.admits(ME, ("batch",), "") and not made.admits(ME, ("batch",), "chemistry")
