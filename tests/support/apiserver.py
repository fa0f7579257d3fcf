"""A Kubernetes API server for tests: HTTP or HTTPS on a real socket, in threads.

It enforces what a real one does: authentication, rights, resource versions, content types, rules
for objects (see `apistore`); it serves lists and watches with bookmarks, and it can be told to
misbehave. It shares no code with the client.

    with ApiServer(tokens={"secret"}) as server:
        server.store.put("/api/v1/nodes/node1")
        access = load_access(server.kubeconfig(tmp_path, token="secret"))
"""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from support.apistore import Json, ObjectStore, Place, Refusal
from support.certificates import Certificates

LIMIT = 10.0
"""Seconds after which something that a test waits for has failed to come."""
LARGEST_BODY = 3 * 1024 * 1024


@dataclass(frozen=True)
class Seen:
    """A request that came."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    connection: int
    """A number for each TCP connection."""

    @property
    def is_watch(self) -> bool:
        return self.query.get("watch") in {"1", "true"}


@dataclass
class Fault:
    """What a request meets instead of an answer, so many times."""

    status: int = 0
    reason: str = ""
    message: str = "as told"
    headers: dict[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    """Bytes to send before the connection is closed; empty to close it without a word."""
    hang: bool = False
    """No answer until the server ends."""
    after: bool = False
    """The request is carried out; only then the connection is closed."""
    times: int = 1


class ApiServer:
    """Serves an `ObjectStore` from the moment on in which it is entered."""

    def __init__(
        self,
        *,
        tokens: Collection[str] | None = None,
        denied: Collection[str] = (),
        certificates: Certificates | None = None,
        client_certificates: bool = False,
        prefix: str = "",
    ) -> None:
        """Prepares a server.

        Args:
            tokens: the bearer tokens that are let in; None for everybody.
            denied: what nobody may do: ``create nodefeatures``.
            certificates: to serve HTTPS with.
            client_certificates: whether only who has a certificate is let in.
            prefix: path before that of the API, as gateways have.
        """
        self.store = ObjectStore()
        self.tokens = None if tokens is None else set(tokens)
        self.denied = set(denied)
        self.certificates = certificates
        self.client_certificates = client_certificates
        self.prefix = prefix
        self.seen: list[Seen] = []
        self.bookmarks = True
        self.marked = 0
        """The newest version that a bookmark told of."""
        self.longest_watch = 60.0
        """Seconds; a watch ends earlier if its client asks for it."""
        self._faults: dict[str, list[Fault]] = {}
        self._generation = 0
        self._is_stopping = False
        self._port = 0
        self._connections = 0
        self._http: _HttpServer | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        scheme = "https" if self.certificates else "http"
        return f"{scheme}://127.0.0.1:{self._port}{self.prefix}"

    def kubeconfig(self, directory: Path, **user: Any) -> str:
        """The path of a kubeconfig for it; the user has what is given, keys with underscores."""
        cluster: Json = {"server": self.url}
        if self.certificates:
            cluster["certificate-authority"] = str(self.certificates.authority)
        named = {key.replace("_", "-"): value for key, value in user.items()}
        if "token-file" in named:
            named["tokenFile"] = named.pop("token-file")
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": named}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        path = directory / "kubeconfig"
        path.write_text(json.dumps(content))
        return str(path)

    def fail(self, method: str, path: str, **fault: Any) -> None:
        """Lets the next requests of that method (``WATCH`` for watches) and path meet a `Fault`."""
        with self.store.changed:
            self._faults.setdefault(f"{method} {path}", []).append(Fault(**fault))

    def cut_watches(self) -> None:
        """Ends all watches that are open."""
        with self.store.changed:
            self._generation += 1
            self.store.changed.notify_all()

    def wait(self, condition: Callable[[], object], limit: float = LIMIT) -> None:
        """Waits in the calling thread until something is so; asked at every request and write."""
        with self.store.changed:
            assert self.store.changed.wait_for(condition, limit), self.seen

    def count(self, method: str, path: str = "", *, watch: bool = False) -> int:
        """How many such requests came."""
        return sum(
            s.method == method and (not path or s.path == path) and s.is_watch == watch
            for s in self.seen
        )

    def start(self) -> None:
        """Begins to serve, at the same port as before."""
        server, self._is_stopping = self, False

        class Handler(_Handler):
            api = server

        self._http = _HttpServer(("127.0.0.1", self._port), Handler)
        self._port = self._http.server_address[1]
        if self.certificates:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self.certificates.server, self.certificates.server_key)
            if self.client_certificates:
                context.load_verify_locations(self.certificates.authority)
                context.verify_mode = ssl.CERT_REQUIRED
            self._http.socket = context.wrap_socket(
                self._http.socket, server_side=True, do_handshake_on_connect=False
            )
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Closes all connections and the port, in the middle of answers, as if it were killed."""
        if self._http is None or self._thread is None:
            return
        self._is_stopping = True
        self.cut_watches()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()
        self._http.close_connections()
        self._http = self._thread = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    # What handlers ask.

    def next_connection(self) -> int:
        with self.store.changed:
            self._connections += 1
            return self._connections

    def note(self, seen: Seen) -> Fault:
        with self.store.changed:
            self.seen.append(seen)
            self.store.changed.notify_all()
            for key in ((f"WATCH {seen.path}",) if seen.is_watch else ()) + (
                f"{seen.method} {seen.path}",
            ):
                for fault in self._faults.get(key, ()):
                    if fault.times > 0:
                        fault.times -= 1
                        return fault
        return Fault()

    def admit(self, seen: Seen) -> None:
        authorization = seen.headers.get("authorization", "")
        if self.tokens is not None and authorization.removeprefix("Bearer ") not in self.tokens:
            raise Refusal(401, "Unauthorized")
        place = Place.of(seen.path)
        verb = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}.get(
            seen.method, "get" if place.name else "watch" if seen.is_watch else "list"
        )
        resource = f"{place.plural}/{place.subresource}" if place.subresource else place.plural
        if f"{verb} {resource}" in self.denied:
            raise Refusal(
                403, f'{place.resource} is forbidden: User "tests" cannot {verb} resource'
            )

    def is_serving(self, generation: int) -> bool:
        return self._http is not None and self._generation == generation

    @property
    def is_stopping(self) -> bool:
        return self._is_stopping

    @property
    def generation(self) -> int:
        return self._generation


class _HttpServer(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 50

    def __init__(self, *args: Any) -> None:
        self._open: set[Any] = set()
        super().__init__(*args)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def close_connections(self) -> None:
        for request in list(self._open):
            self.shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that go away are none of the test's business."""


class _Handler(BaseHTTPRequestHandler):
    api: ApiServer
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        super().setup()
        self.number = self.api.next_connection()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        seen = Seen(
            self.command,
            url.path.removeprefix(self.api.prefix),
            {key: values[-1] for key, values in parse_qs(url.query).items()},
            {name.lower(): value for name, value in self.headers.items()},
            self.rfile.read(length),
            self.number,
        )
        fault = self.api.note(seen)
        if fault.hang:
            self.api.wait(lambda: not self.api.is_serving(self.api.generation), 60)
        if fault.raw is not None or fault.hang:
            self.wfile.write(fault.raw or b"")
            self.close_connection = True
            return
        try:
            if fault.status:
                raise Refusal(fault.status, fault.message, fault.reason)
            if self.api.prefix and not url.path.startswith(self.api.prefix):
                raise Refusal(404, "not behind this gateway")
            self.api.admit(seen)
            if seen.is_watch:
                self._watch(seen)
                return
            code, answer = self._answer(seen)
        except Refusal as refusal:
            code, answer = refusal.code, refusal.status
        if fault.after:
            self.close_connection = True
            return
        self._reply(code, answer, fault.headers)

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815

    def _answer(self, seen: Seen) -> tuple[int, Json]:
        store, item = self.api.store, self._item(seen)
        if seen.method == "POST":
            return 201, store.create(seen.path, item)
        if seen.method == "PUT":
            return 200, store.replace(seen.path, item)
        if seen.method == "PATCH":
            strategic = seen.headers.get("content-type", "").startswith("application/strategic")
            return 200, store.merge(seen.path, item, strategic=strategic)
        if seen.method == "DELETE":
            return 200, store.delete(seen.path)
        if Place.of(seen.path).name:
            return 200, store.get(seen.path)
        return 200, store.list(seen.path, _name_selected(seen))

    @staticmethod
    def _item(seen: Seen) -> Json:
        if seen.method in {"GET", "DELETE"}:
            return {}
        kinds = {"application/json"}
        if seen.method == "PATCH":
            kinds = {"application/merge-patch+json", "application/strategic-merge-patch+json"}
        if seen.headers.get("content-type") not in kinds:
            raise Refusal(415, f"the body of the request is of none of the types {sorted(kinds)}")
        if len(seen.body) > LARGEST_BODY:
            raise Refusal(413, "the request is too large")
        try:
            item = json.loads(seen.body)
        except ValueError:
            item = None
        if not isinstance(item, dict):
            raise Refusal(400, "the body of the request is no object")
        return item

    def _watch(self, seen: Seen) -> None:
        store, name = self.api.store, _name_selected(seen)
        given = seen.query.get("resourceVersion", "")
        first: list[Json] = []
        with store.changed:
            generation = self.api.generation
            since = int(given) if given not in {"", "0"} else store.version
            if given in {"", "0"}:
                first = store.list(seen.path, name)["items"]
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for item in first:
            self._send_event("ADDED", item)
        wants_bookmarks = self.api.bookmarks and seen.query.get("allowWatchBookmarks") == "true"
        seconds = min(float(seen.query.get("timeoutSeconds", "60")), self.api.longest_watch)
        ended = threading.Event()
        timer = threading.Timer(seconds, ended.set)
        timer.daemon = True
        timer.start()
        marked = since
        try:
            while self.api.is_serving(generation) and not ended.is_set():
                with store.changed:
                    events = list(store.events_after(since, seen.path, name))
                    if not events:
                        if wants_bookmarks:
                            since = max(since, store.version)
                        store.changed.wait(0.05)
                for event in events:
                    since = event.version
                    self._send_event(event.kind, event.item)
                if wants_bookmarks and not events and since > marked:
                    self._bookmark(seen.path, since)
                    marked = since
        except Refusal as refusal:
            self._send_event("ERROR", refusal.status)
        finally:
            timer.cancel()
        if self.api.is_stopping:
            self.close_connection = True
        else:
            self.wfile.write(b"0\r\n\r\n")

    def _bookmark(self, path: str, version: int) -> None:
        place = Place.of(path)
        metadata = {"resourceVersion": str(version)}
        item = {"kind": place.kind, "apiVersion": place.api_version, "metadata": metadata}
        self._send_event("BOOKMARK", item)
        with self.api.store.changed:
            self.api.marked = max(self.api.marked, version)
            self.api.store.changed.notify_all()

    def _send_event(self, kind: str, item: Json) -> None:
        line = json.dumps({"type": kind, "object": item}).encode() + b"\n"
        self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
        self.wfile.flush()

    def _reply(self, code: int, answer: Json, headers: dict[str, str]) -> None:
        content = json.dumps(answer).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)


def _name_selected(seen: Seen) -> str:
    selector = seen.query.get("fieldSelector", "")
    return selector.removeprefix("metadata.name=") if selector else ""
