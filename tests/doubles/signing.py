"""An issuer of tokens: a secret, two published keys, and the address where it publishes them."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

SECRET = "a-secret-that-is-long-enough-for-hs256-and-for-the-longer-hashes-too"
AUDIENCE = "callsheet"
ISSUER = "https://issuer.example"


def claims(sub: object = "alice", **more: Any) -> dict[str, Any]:
    """The claims of a valid token; a claim given as None is left out."""
    token_claims = {
        "sub": sub,
        "exp": int(time.time()) + 600,
        "aud": AUDIENCE,
        "iss": ISSUER,
        "scope": "read write",
    } | more
    return {name: value for name, value in token_claims.items() if value is not None}


def shared_secret_token(key: str = SECRET, algorithm: str = "HS256", **changes: Any) -> str:
    """A token signed by the secret."""
    return jwt.encode(claims(**changes), key, algorithm=algorithm)


class Issuer:
    """Publishes its keys on a port of its own; counts requests for them."""

    def __init__(self) -> None:
        self.keys: dict[str, Any] = {}
        self.request_count = 0
        self.down = False
        self.url = ""

    def add_key(self, key_id: str, algorithm: str = "ES256") -> None:
        """Publish a further key."""
        self.keys[key_id] = (
            ec.generate_private_key(ec.SECP256R1())
            if algorithm == "ES256"
            else rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
        )

    def token(self, key_id: str, header: dict[str, Any] | None = None, **changes: Any) -> str:
        """A token signed by one of its keys."""
        key = self.keys[key_id]
        algorithm = "ES256" if isinstance(key, ec.EllipticCurvePrivateKey) else "RS256"
        return jwt.encode(claims(**changes), key, algorithm=algorithm, headers=header or {"kid": key_id})

    def pem(self, key_id: str) -> bytes:
        """The public half of a key, as anybody may have it."""
        return bytes(
            self.keys[key_id]
            .public_key()
            .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        )

    def key_set(self) -> bytes:
        """The keys as the issuer publishes them."""
        keys = []
        for key_id, key in self.keys.items():
            kind = (
                jwt.algorithms.ECAlgorithm
                if isinstance(key, ec.EllipticCurvePrivateKey)
                else jwt.algorithms.RSAAlgorithm
            )
            keys.append(kind.to_jwk(key.public_key(), as_dict=True) | {"kid": key_id, "use": "sig"})
        return json.dumps({"keys": keys}).encode()


@contextmanager
def running_issuer() -> Iterator[Issuer]:
    """A running issuer."""
    issuer = Issuer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            issuer.request_count += 1
            body = b"" if issuer.down else issuer.key_set()
            self.send_response(503 if issuer.down else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    issuer.url = f"http://127.0.0.1:{server.server_port}/keys"
    try:
        yield issuer
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
