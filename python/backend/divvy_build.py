"""Builds wheels with CMake: the build backend (PEP 517) of pyproject.toml.

It needs no Python packages. CMake builds the extension module with the
interpreter that runs this file; a wheel is a zip file of the package and three
files about it. The module uses Python's limited API, so that a wheel serves
Python 3.11 and later.
"""

import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import tomllib
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def _text(name):
    with open(os.path.join(ROOT, name), encoding="utf-8") as f:
        return f.read()


def _version():
    return re.search(r"project\(divvy VERSION ([0-9.]+)", _text("CMakeLists.txt"))[1]


def _metadata():
    project = tomllib.loads(_text("pyproject.toml"))["project"]
    return f"""Metadata-Version: 2.1
Name: {project["name"]}
Version: {_version()}
Summary: {project["description"]}
Requires-Python: {project["requires-python"]}
Description-Content-Type: text/markdown

{_text(project["readme"])}"""


def _tag():
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    return f"cp311-abi3-{platform}"


def _build(folder):
    """Builds the package; returns the folder that contains it."""
    options = [
        "-DCMAKE_BUILD_TYPE=Release",
        "-DBUILD_TESTING=OFF",
        "-DDV_PYTHON=ON",
        f"-DDV_PYTHON_EXECUTABLE={sys.executable}",
    ]
    if shutil.which("ninja"):
        options.append("-GNinja")
    jobs = str(os.cpu_count() or 1)
    cmake = ["cmake", "--log-level=WARNING", "-S", ROOT, "-B", folder, *options]
    subprocess.run(cmake, check=True)
    subprocess.run(
        ["cmake", "--build", folder, "-j", jobs, "--target", "divvy_python"],
        check=True,
    )
    module = os.path.join(folder, "python", "divvy", "_divvy.abi3.so")
    if not os.path.exists(module):
        raise SystemExit("Python.h is missing: install python3-dev")
    if shutil.which("strip"):
        subprocess.run(["strip", "--strip-unneeded", module], check=True)
    return os.path.join(folder, "python")


class _Wheel:
    """A wheel that is being written, and its list of files."""

    def __init__(self, folder, tag):
        self.tag = tag
        self.name = f"divvy-{_version()}-{tag}.whl"
        self.info = f"divvy-{_version()}.dist-info"
        path = os.path.join(folder, self.name)
        self.zip = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)
        self.record = []

    def add(self, name, data, mode=0o644):
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest())
        self.record.append(f"{name},sha256={digest.decode().rstrip('=')},{len(data)}")
        entry = zipfile.ZipInfo(name)
        entry.external_attr = (0o100000 | mode) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        self.zip.writestr(entry, data)

    def close(self):
        for name, text in _info_files(self.tag).items():
            self.add(f"{self.info}/{name}", text.encode())
        lines = [*self.record, f"{self.info}/RECORD,,", ""]
        self.zip.writestr(f"{self.info}/RECORD", "\n".join(lines))
        self.zip.close()
        return self.name


def _info_files(tag):
    wheel = f"Wheel-Version: 1.0\nGenerator: divvy_build\nRoot-Is-Purelib: false\nTag: {tag}\n"
    return {"METADATA": _metadata(), "WHEEL": wheel, "LICENSE": _text("LICENSE")}


def get_requires_for_build_wheel(config_settings=None):
    return []


def get_requires_for_build_sdist(config_settings=None):
    return []


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    info = f"divvy-{_version()}.dist-info"
    os.makedirs(os.path.join(metadata_directory, info))
    for name, text in _info_files(_tag()).items():
        path = os.path.join(metadata_directory, info, name)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
    return info


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    with tempfile.TemporaryDirectory() as folder:
        top = _build(folder)
        wheel = _Wheel(wheel_directory, _tag())
        for where, folders, files in sorted(os.walk(os.path.join(top, "divvy"))):
            folders[:] = [f for f in folders if f != "__pycache__"]
            for file in sorted(files):
                path = os.path.join(where, file)
                with open(path, "rb") as f:
                    mode = 0o755 if file.endswith(".so") else 0o644
                    wheel.add(os.path.relpath(path, top), f.read(), mode)
        return wheel.close()


def build_sdist(sdist_directory, config_settings=None):
    """Packs the files that git knows."""
    name = f"divvy-{_version()}"
    listed = subprocess.run(
        ["git", "-C", ROOT, "ls-files"], check=True, capture_output=True, text=True
    )
    with tarfile.open(os.path.join(sdist_directory, name + ".tar.gz"), "w:gz") as tar:
        for file in listed.stdout.splitlines():
            tar.add(os.path.join(ROOT, file), f"{name}/{file}")
        info = os.path.join(tempfile.mkdtemp(), "PKG-INFO")
        with open(info, "w", encoding="utf-8") as f:
            f.write(_metadata())
        tar.add(info, f"{name}/PKG-INFO")
    return name + ".tar.gz"
