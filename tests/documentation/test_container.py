"""The instructions of the Dockerfile work, in a virtual environment instead of an image."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.documentation import FILES, PATIENCE, commands, copy_of_the_clone, need_package_index
from support.loopback import free_port

PAGE = "howto/container.rst"
#: Each instruction with its arguments, without comments.
INSTRUCTIONS = re.findall(r"^([A-Z]+) (.*)$", FILES["Dockerfile"], re.MULTILINE)
#: Instructions of the image alone. The test does not create a user, because it is not root.
ONLY_IN_AN_IMAGE = {"FROM", "VOLUME", "USER", "EXPOSE"}


class Image:
    """The file system of the image, in a folder.

    :param context: the build context.
    :param root: the root of the file system.
    """

    def __init__(self, context: Path, root: Path) -> None:
        self.context, self.root = context, root
        self.workdir = root
        self.port = str(free_port())
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith("FLASK_")
        }
        self.environment["PATH"] = f"{root}/venv/bin{os.pathsep}{os.environ['PATH']}"
        (root / "tmp").mkdir(parents=True)
        subprocess.run([sys.executable, "-m", "venv", str(root / "venv")], check=True)

    def here(self, text: str) -> str:
        """Return a text of the page with the folders, the user and the port of this test."""
        text = re.sub(r"(?<![\w.])/(tmp|srv)/", rf"{self.root}/\1/", text)
        return text.replace("chown repository", f"chown {os.getuid()}").replace("8000", self.port)

    def build(self) -> None:
        """Execute the instructions that build the image."""
        for name, text in INSTRUCTIONS:
            if name == "WORKDIR":
                self.workdir = Path(self.here(f"{text}/"))
                self.workdir.mkdir(parents=True)
            elif name == "COPY":
                self.copy(*self.here(text).split())
            elif name == "ENV":
                self.environment.update([text.split("=", 1)])
            elif name == "RUN" and "useradd" not in text:
                self.run(["sh", "-c", self.here(text)])
            else:
                assert name in ONLY_IN_AN_IMAGE | {"RUN", "HEALTHCHECK", "CMD"}, name

    def copy(self, *names: str) -> None:
        """Copy from the build context: the content of a folder, or files into a folder."""
        *sources, target = names
        for source in sources:
            path = self.context / source
            copied = f"{path}/." if path.is_dir() else str(path)
            self.run(["mkdir", "-p", target if path.is_dir() else str(self.workdir / target)])
            self.run(["cp", "-r", copied, target])

    def run(self, arguments: list[str]) -> None:
        done = subprocess.run(
            arguments, cwd=self.workdir, env=self.environment, capture_output=True, text=True
        )
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run the command of the image until its health check succeeds."""
        [(_, command)] = [one for one in INSTRUCTIONS if one[0] == "CMD"]
        [(_, check)] = [one for one in INSTRUCTIONS if one[0] == "HEALTHCHECK"]
        health = ["sh", "-c", self.here(check.removeprefix("CMD "))]
        with (self.root / "log").open("w") as log:
            server = subprocess.Popen(
                json.loads(command),
                cwd=self.workdir,
                env=self.environment,
                stdout=log,
                stderr=log,
            )
        try:
            deadline = time.monotonic() + PATIENCE
            while subprocess.run(
                health, env=self.environment, cwd=self.workdir, capture_output=True
            ).returncode:
                text = (self.root / "log").read_text()
                assert server.poll() is None, text
                assert time.monotonic() < deadline, text
            yield
        finally:
            server.terminate()
            server.wait(PATIENCE)


@pytest.mark.slow
def test_the_instructions_of_the_dockerfile_build_and_run_the_app(tmp_path: Path) -> None:
    need_package_index(tmp_path)
    context = tmp_path / "context"
    copy_of_the_clone(context)
    image = Image(context, tmp_path / "image")
    (context / "app.py").write_text(FILES["app.py"])
    local = 'bind = "127.0.0.1:8000"'
    assert local in FILES["gunicorn.conf.py"]
    # as the page says; only this computer can connect to the port of the test
    settings = FILES["gunicorn.conf.py"].replace(local, image.here(local))
    (context / "gunicorn.conf.py").write_text(settings)
    image.build()
    image.environment["FLASK_SECRET_KEY"] = "of the env-file"
    with image.running():
        [executed] = [line for line in commands(PAGE) if line.startswith("docker exec repository ")]
        image.run(executed.removeprefix("docker exec repository ").split())
    assert (image.workdir / "instance/reports.sqlite").is_file()


def test_the_image_has_a_python_of_the_package_and_the_page_names_its_volume() -> None:
    version = re.search(r"python:3\.(\d+)-slim", FILES["Dockerfile"])
    assert version
    assert int(version[1]) >= 10
    [volume] = [text for name, text in INSTRUCTIONS if name == "VOLUME"]
    assert any(f"--volume repository:{volume}" in line for line in commands(PAGE))
