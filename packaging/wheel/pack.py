"""Packs the program into a wheel: `pack.py PROGRAM VERSION PLATFORM FOLDER` prints its path.

Whoever installs it gets the program as a command. It has no module, so it suits each Python.
"""

import base64
import hashlib
import pathlib
import sys
import zipfile

program, version, platform, folder = sys.argv[1:]
here = pathlib.Path(__file__).resolve().parent
name, tag = f"penates_server-{version}", f"py3-none-{platform}"
info = f"{name}.dist-info"
wheel = f"Wheel-Version: 1.0\nGenerator: penates\nRoot-Is-Purelib: false\nTag: {tag}\n"
files = {
    f"{name}.data/scripts/penates": pathlib.Path(program).read_bytes(),
    f"{info}/licenses/LICENSE": (here.parents[1] / "LICENSE").read_bytes(),
    f"{info}/METADATA": (here / "METADATA").read_text().replace("VERSION", version).encode(),
    f"{info}/WHEEL": wheel.encode(),
}
record = ""
for path, content in files.items():
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
    record += f"{path},sha256={digest},{len(content)}\n"
files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()

packed = pathlib.Path(folder) / f"{name}-{tag}.whl"
with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
    for path, content in files.items():
        entry = zipfile.ZipInfo(path)
        entry.external_attr = (0o100755 if "/scripts/" in path else 0o100644) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        archive.writestr(entry, content)
print(packed)
