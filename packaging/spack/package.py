# treepool for Spack, in a repository of yours as packages/py-treepool/package.py. Until an sdist is
# published, and its checksum is here, build a checkout:
#
#   spack develop --path /path/to/treepool py-treepool@0.2.0
#   spack install py-treepool
#
# "spack load py-treepool" sets the variables with which Flux finds the scheduler module, the
# subcommand, the options of "flux submit" and the pool, as "treepool flux-env" prints them.

from spack.package import *


class PyTreepool(PythonPackage):
    """Topology-aware scheduling for the Flux resource manager (Flux RFC 49)."""

    license("LGPL-3.0-or-later")

    version("0.2.0")

    variant("completion", default=False, description="Scripts for shells can be made")

    depends_on("python@3.9:", type=("build", "run"))
    depends_on("py-hatchling", type="build")
    depends_on("py-attrs@22.2:", type=("build", "run"))
    depends_on("py-defusedxml@0.7:", type=("build", "run"))
    depends_on("py-rich@12.4:", type=("build", "run"))
    depends_on("py-shtab@1.7:", type="run", when="+completion")
    depends_on("flux-core@0.86:", type="run")

    import_modules = ["treepool", "treepool.cli.main", "treepool.placement.pool"]

    def setup_run_environment(self, env):
        purelib = self.spec["python"].package.purelib
        flux = join_path(self.prefix, purelib, "treepool", "flux")
        env.prepend_path("FLUX_MODULE_PATH_PREPEND", join_path(flux, "modules"))
        env.prepend_path("FLUX_EXEC_PATH_PREPEND", join_path(flux, "bin"))
        env.prepend_path("FLUX_CLI_PLUGINPATH", join_path(flux, "cliplugin"))
        env.prepend_path("FLUX_PYTHONPATH_PREPEND", join_path(flux, "pools"))
        env.prepend_path("FLUX_MODPROBE_PATH_APPEND", join_path(flux, "modprobe"))

    @run_after("install")
    @on_package_attributes(run_tests=True)
    def play_vectors(self):
        python("-m", "treepool", "conformance")
