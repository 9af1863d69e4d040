"""A small S3 in memory, so that real clients of it (pyarrow, delta-rs, pyiceberg) have a remote store to use.

It knows what they ask for: objects, ranges, listings, uploads in parts, and a put that fails if the name is
taken. Signatures are not looked at.
"""

import hashlib
import re
import subprocess
import sys
import threading
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape


@contextmanager
def s3_server() -> Generator[dict[str, str]]:
    """Serve one; the environment that leads clients to it.

    In a process of its own, as some clients hold Python's lock while they wait for an answer.
    """
    with subprocess.Popen([sys.executable, "-m", __name__], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            port = int(process.stdout.readline())
            yield {
                "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
                "AWS_ACCESS_KEY_ID": "tests",
                "AWS_SECRET_ACCESS_KEY": "tests",
                "AWS_REGION": "us-east-1",
                "AWS_DEFAULT_REGION": "us-east-1",
                "AWS_EC2_METADATA_DISABLED": "true",
                "AWS_ALLOW_HTTP": "true",
            }
        finally:
            process.kill()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    objects: ClassVar[dict[str, bytes]] = {}
    """By `bucket/key`."""
    parts: ClassVar[dict[str, dict[int, bytes]]] = {}
    """Of uploads under way, by their id and number."""
    lock: ClassVar[threading.Lock] = threading.Lock()

    def do_HEAD(self) -> None:
        self._read_object()

    def do_GET(self) -> None:
        if "list-type" in self._query() or "/" not in self._name():
            self._list()
        else:
            self._read_object()

    def do_PUT(self) -> None:
        body, query, name = self._body(), self._query(), self._name()
        if "partNumber" in query:
            self.parts[query["uploadId"]][int(query["partNumber"])] = body
        else:
            with self.lock:
                if self.headers.get("If-None-Match") == "*" and name in self.objects:
                    self._answer(412, _error("PreconditionFailed"))
                    return
                self.objects[name] = body
        self._answer(200, b"", {"ETag": _etag(body)})

    def do_POST(self) -> None:
        body, query, name = self._body(), self._query(), self._name()
        if "uploads" in query:
            upload = uuid.uuid4().hex
            self.parts[upload] = {}
            kind = "InitiateMultipartUploadResult"
            xml = f"<{kind}><UploadId>{upload}</UploadId></{kind}>"
        elif "uploadId" in query:
            parts = self.parts.pop(query["uploadId"])
            self.objects[name] = b"".join(parts[number] for number in sorted(parts))
            etag = escape(_etag(self.objects[name]))
            xml = f"<CompleteMultipartUploadResult><ETag>{etag}</ETag></CompleteMultipartUploadResult>"
        else:
            assert "delete" in query, self.path
            keys = re.findall(r"<Key>(.*?)</Key>", body.decode())
            for key in keys:
                self.objects.pop(f"{name}/{key}", None)
            gone = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
            xml = f"<DeleteResult>{gone}</DeleteResult>"
        self._answer(200, xml.encode())

    def do_DELETE(self) -> None:
        self.objects.pop(self._name(), None)
        self._answer(204)

    def log_message(self, format: str, *args: object) -> None:
        pass

    def _query(self) -> dict[str, str]:
        found = parse_qs(urlsplit(self.path).query, keep_blank_values=True)
        return {name: values[0] for name, values in found.items()}

    def _name(self) -> str:
        return unquote(urlsplit(self.path).path).lstrip("/").rstrip("/" if self.command == "POST" else "")

    def _body(self) -> bytes:
        sent = self._chunks() if "chunked" in self.headers.get("Transfer-Encoding", "") else self._sized()
        if "aws-chunked" not in self.headers.get("Content-Encoding", ""):
            return sent
        body = b""
        while sent:
            size, _, sent = sent.partition(b"\r\n")
            length = int(size.partition(b";")[0], 16)
            if not length:
                break
            body, sent = body + sent[:length], sent[length + 2 :]
        return body

    def _sized(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _chunks(self) -> bytes:
        body = b""
        while length := int(self.rfile.readline(), 16):
            body += self.rfile.read(length)
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return body

    def _read_object(self) -> None:
        name = self._name()
        if "/" not in name.rstrip("/"):
            self._answer(200)  # The bucket.
            return
        found = self.objects.get(name)
        if found is None:
            self._answer(404, _error("NoSuchKey"))
            return
        headers = {"ETag": _etag(found), "Last-Modified": formatdate(usegmt=True)}
        wanted = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        if wanted is None:
            self._answer(200, found, headers)
            return
        first, last = wanted.groups()
        start = int(first) if first else max(0, len(found) - int(last))
        end = min(int(last) + 1, len(found)) if first and last else len(found)
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{len(found)}"
        self._answer(206, found[start:end], headers)

    def _list(self) -> None:
        query = self._query()
        bucket = self._name().rstrip("/")
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        folders: set[str] = set()
        listed = ""
        for name in sorted(self.objects):
            key = name.removeprefix(f"{bucket}/")
            if key == name or not key.startswith(prefix) or key <= query.get("start-after", ""):
                continue
            folder, mark, _ = key[len(prefix) :].partition(delimiter) if delimiter else ("", "", "")
            if mark:
                folders.add(f"{prefix}{folder}{mark}")
                continue
            listed += (
                f"<Contents><Key>{escape(key)}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
                f"<ETag>{escape(_etag(self.objects[name]))}</ETag><Size>{len(self.objects[name])}</Size></Contents>"
            )
        listed += "".join(
            f"<CommonPrefixes><Prefix>{escape(folder)}</Prefix></CommonPrefixes>"
            for folder in sorted(folders)
        )
        self._answer(
            200,
            f"<ListBucketResult><Name>{bucket}</Name><IsTruncated>false</IsTruncated>{listed}"
            "</ListBucketResult>".encode(),
        )

    def _answer(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _etag(body: bytes) -> str:
    return f'"{hashlib.md5(body).hexdigest()}"'


def _error(code: str) -> bytes:
    return f"<Error><Code>{code}</Code></Error>".encode()


if __name__ == "__main__":
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        print(server.server_port, flush=True)
        server.serve_forever()
