"""Attacks as data: texts that would run as scripts, statements, and addresses of internal networks."""

import json
from pathlib import Path

PAYLOADS: list[str] = [
    json.loads(line) for line in (Path(__file__).parent / "xss.jsonl").read_text().splitlines()
]
"""Payloads from cheat sheets on cross-site scripting."""
STATEMENTS = [
    "1'; DROP TABLE pages;--",
    "' OR '1'='1' /*",
    "Robert'); DELETE FROM tool_executions WHERE ('a'='a",
    "admin'--",
    '" UNION SELECT password FROM users; --',
    '{"$gt": ""}',
    "*3 $8 FLUSHALL",
    "return redis.call('FLUSHALL')",
    "{{7*7}} ${jndi:ldap://x} #{7*7} <%= 7*7 %>",
]
"""Statements of SQL, Redis, Lua and template languages, which must stay texts."""
INTERNAL_URLS = [
    "http://127.0.0.1/",
    "http://2130706433/",
    "http://0177.0.0.1/",
    "http://0x7f000001/",
    "http://0x7f.1/",
    "http://127.1/",
    "http://localhost/",
    "http://0.0.0.0/",
    "http://0/",
    "http://10.0.0.1/",
    "http://172.16.0.1/",
    "http://192.168.1.1/",
    "http://169.254.169.254/latest/meta-data/",
    "http://100.64.0.1/",
    "http://198.18.0.1/",
    "http://224.0.0.1/",
    "http://255.255.255.255/",
    "http://[::1]/",
    "http://[::]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:a9fe:a9fe]/",
    "http://[::127.0.0.1]/",
    "http://[64:ff9b::7f00:1]/",
    "http://[2002:7f00:1::]/",
    "http://[2001:0:7f00:1::]/",
    "http://[fd00:ec2::254]/",
    "http://[fe80::1]/",
    "http://[fec0::1]/",
    "http://[ff02::1]/",
]
"""Spellings of addresses of this machine and of networks that are not public."""
