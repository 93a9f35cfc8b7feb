"""Asks for volumes as the field's Python client does: over TLS, with a bearer token of another maker and a client certificate;
volumes are counted by their directories, and what is unavailable is the last word of its line of ERROR.err."""

import io
import ssl
import sys
import urllib.request
import zipfile

base, trusted, certificate, key = sys.argv[1:5]
ids = [name.replace("+", ":").replace("=", "/") for name in sys.argv[5:]]
context = ssl.create_default_context(cafile=trusted)
context.load_cert_chain(certificate, key)
request = urllib.request.Request(base + "/volumes", data=("volumeIDs=" + "|".join(ids)).encode())
request.add_header("Authorization", "Bearer eyJhbGciOiJSUzI1NiJ9.of.others")
with urllib.request.urlopen(request, context=context) as response:
    archive = zipfile.ZipFile(io.BytesIO(response.read()))
names = archive.namelist()
errors = archive.read("ERROR.err").decode() if "ERROR.err" in names else ""
print("sound", archive.testzip() is None)
print("volumes", *[name for name in names if name.endswith("/")])
print("pages", sum(name.endswith(".txt") for name in names))
print("unavailable", *[line.split()[-1] for line in errors.splitlines() if "KeyNotFoundException" in line])
