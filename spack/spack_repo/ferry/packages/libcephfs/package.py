"""The client of CephFS, which only the system can have: Ceph itself has no package in Spack."""

from contextlib import suppress

from spack.package import *

with suppress(ImportError):  # before Spack 1.0 the module above has it
    from spack_repo.builtin.build_systems.bundle import BundlePackage


class Libcephfs(BundlePackage):
    """The client library of CephFS, with its headers (Debian: libcephfs-dev)."""

    homepage = "https://docs.ceph.com/en/latest/cephfs/"

    version("2")

    def install(self, spec, prefix):
        raise InstallError("libcephfs is not built here: name the system's in packages.yaml, as an external package")
