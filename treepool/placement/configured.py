"""What the options of a pool make of it: its policy; whether a mix suits its nodes."""

from __future__ import annotations

from typing import Mapping, Optional, Sequence

from treepool.errors import InvalidJobspec, InvalidOption
from treepool.placement.choose.mix import Mix, mix_of, smallest_domains
from treepool.placement.choose.policy import POLICIES, Policy
from treepool.placement.nodes.fabric_tree import Fabric
from treepool.placement.options import checked, kinds_of, number
from treepool.placement.request.vertices import request_of
from treepool.rfc import jobspec
from treepool.rfc.findings import shown
from treepool.rfc.shape import parse_shape


def check_mix(mix: Mix, localities: Sequence[str], above: Sequence[str]) -> None:
    """Raise InvalidOption if *mix* has a kind of job that its pool does not understand.

    The nodes of the pool have these *localities*; *above* are those of its fabric.
    """
    for kind in mix.kinds:
        try:
            spec = jobspec.read(jobspec.from_resources(parse_shape(kind.shape)))
            request_of(spec, localities, "preferred", above)
        except InvalidJobspec as e:
            raise InvalidOption(f"mix: {shown(kind.shape)}: {e}") from None


def chosen(options: Mapping[str, str], fabric: Optional[Fabric]) -> tuple[dict[str, str], Policy]:
    """All options, with *options* among them, their policy; raises InvalidOption.

    A weight that the policy does not use is not among them. *fabric* is that of the pool.
    """
    values = checked(options)
    number("gpu_cores", values)
    jobs = mix_of(kinds_of(values["mix"]), smallest_domains(fabric))
    policy = POLICIES[values["policy"]](number("straddle", values), jobs)
    if not policy.weighs:
        del values["straddle"]
    return values, policy
