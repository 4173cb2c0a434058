"""Vendors' clients are imported on first use, and the event loop goes on meanwhile."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.doubles.chat_double import ChatDouble, Say

_TURN = """
import asyncio, json, sys, threading

imported = {}

class Witness:
    def find_spec(self, name, path=None, target=None):
        if name in {"openai", "langchain_openai"}:
            imported[name] = threading.current_thread() is threading.main_thread()
        return None

sys.meta_path.insert(0, Witness())

async def main():
    from callsheet.server.app import create_app
    from callsheet.server.settings.settings import Settings
    import httpx
    app = create_app(Settings(data_dir=sys.argv[1]))
    async with app.router.lifespan_context(app):
        assert imported == {}, "the start needs no vendor"
        transport = httpx.ASGITransport(app=app)
        base = "http://127.0.0.1:2024"
        async with httpx.AsyncClient(transport=transport, base_url=base, timeout=60) as http:
            brief = {"clientDescription": "Miel, a bakery in Lyon"}
            body = {"adId": "a", "provider": "openai", "brief": brief}
            reply = await http.post("/api/ai/generate", json=body)
    print(json.dumps([reply.status_code, imported]))

asyncio.run(main())
"""


@pytest.mark.slow
def test_the_first_call_of_a_vendor_does_not_import_its_client_on_the_event_loop(
    model: ChatDouble, tmp_path: Path
) -> None:
    model.script(Say("Which voice would you like?"), Say("Which voice would you like?"))
    command = [sys.executable, "-c", _TURN, str(tmp_path)]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    status, imported = json.loads(done.stdout.splitlines()[-1])
    assert status == 200
    assert imported == {"openai": False, "langchain_openai": False}
