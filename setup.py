"""Name the packages, compile the catalogues, and adapt the README; ``setup.cfg`` has the rest."""

import re
from pathlib import Path

from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

PACKAGE = "flask_ibi_archive"


class BuildPackages(build_py):
    """Copy the packages into the wheel, with compiled catalogues instead of their texts."""

    def run(self) -> None:
        """Copy the packages, then compile the catalogues of the copy."""
        super().run()
        for texts in Path(self.build_lib).rglob("*.po"):
            with texts.open("rb") as source, texts.with_suffix(".mo").open("wb") as compiled:
                write_mo(compiled, read_po(source))
            texts.unlink()


# The folder of the migrations is beside the package, and is installed inside it.
migrations = find_packages(include=["migrations", "migrations.*"])
# A page of a package index shows the README without the files that it refers to.
readme = Path("README.rst").read_text(encoding="utf-8")
readme = re.sub(r"\.\. image::.*\n(?: +.*\n)+\n", "", readme)
readme = re.sub(r"`([^`<]+) <(?!https?:)[^>]+>`_", r"\1", readme)

setup(
    packages=[
        *find_packages(include=[PACKAGE, f"{PACKAGE}.*"]),
        *(f"{PACKAGE}.{name}" for name in migrations),
    ],
    long_description=readme,
    cmdclass={"build_py": BuildPackages},
)
