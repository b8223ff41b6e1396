"""Ferry for Spack, from the checkout that holds this file."""

import os
from contextlib import suppress
from pathlib import Path

from spack.package import *

with suppress(ImportError):  # before Spack 1.0 the module above has it
    from spack_repo.builtin.build_systems.cmake import CMakePackage

CHECKOUT = Path(__file__).resolve().parents[5]


class Ferry(CMakePackage):
    """File I/O for many-core devices: calls from device programs, bulk transfers, collective I/O."""

    homepage = CHECKOUT.as_uri()
    git = CHECKOUT.as_uri()

    license("Apache-2.0")

    version("main", branch="main")

    variant("mpi", default=True, description="Collective I/O of MPI programs, also unmodified ones")
    variant("fortran", default=True, description="The Fortran modules")
    variant("python", default=True, description="The command ferry and the Python package")
    variant("cuda", default=False, description="A compiler for kernels that use Ferry, which needs none itself")
    variant("nfs", default=False, description="nfs:// paths, by libnfs")
    variant("ceph", default=False, description="ceph: paths, by the libcephfs of the system")

    requires("platform=linux")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("fortran", type="build", when="+fortran")
    depends_on("cmake@3.25:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("liburing@2.3:")
    depends_on("nlohmann-json@3.11:", type="build")
    depends_on("tomlplusplus@3.2:", type="build")
    depends_on("xxhash@0.8:", type="build")
    depends_on("mpi@3.1:", when="+mpi")
    depends_on("cuda@12:", type="run", when="+cuda")
    # Loaded when a path first needs them, by the search path of the libraries that are built here.
    depends_on("libnfs@4:5", when="+nfs")
    depends_on("libcephfs", when="+ceph")

    with when("+python"):
        extends("python@3.11:")
        depends_on("py-nanobind@2.2:", type="build")
        depends_on("py-click@8.1:", type=("build", "run"))
        depends_on("py-rich@13:", type=("build", "run"))
        depends_on("py-numpy@1.24:", type=("build", "run"))

    conflicts("%gcc@:11", msg="Ferry is written in C++20, and needs GCC 12 or Clang 14")
    conflicts("%clang@:13", msg="Ferry is written in C++20, and needs GCC 12 or Clang 14")

    test_requires_compiler = True
    sanity_check_is_file = ["include/ferry.h", "include/ferry/ferry.hpp"]

    def cmake_args(self):
        arguments = [
            self.define("FERRY_TOOLS", False),
            self.define("FERRY_EXAMPLES", False),
            self.define_from_variant("FERRY_MPI", "mpi"),
            self.define_from_variant("FERRY_FORTRAN", "fortran"),
            self.define_from_variant("FERRY_PROGRAMS", "python"),
            self.define_from_variant("FERRY_PYTHON", "python"),
        ]
        if self.spec.satisfies("+python"):
            python = self.spec["python"]
            arguments += [
                self.define("Python_EXECUTABLE", python.command.path),
                self.define("FERRY_PYTHON_DIR", python.package.platlib),
            ]
        return arguments

    @run_after("install")
    def keep_examples(self):
        cache_extra_test_sources(self, "examples/c")

    def test_device_program(self):
        """a device program in C counts the lines of its own source"""
        source = join_path(self.test_suite.current_test_cache_dir, "examples/c/lines.c")
        cc = which(os.environ["CC"])
        cc(
            "-std=c11",
            source,
            "-o",
            "lines",
            f"-I{self.prefix.include}",
            f"-L{self.prefix.lib}",
            f"-Wl,-rpath,{self.prefix.lib}",
            "-lferry",
        )
        lines = str(len(Path(source).read_text().splitlines()))
        assert which("./lines")(source, output=str).strip() == lines

    def test_command(self):
        """the command copies a file"""
        if self.spec.satisfies("~python"):
            raise SkipTest("built without the command")
        ferry = which(self.prefix.bin.ferry)
        print(ferry("--version", output=str))
        Path("source").write_text("carried over")
        ferry("cp", "source", "copy")
        assert Path("copy").read_text() == "carried over"
