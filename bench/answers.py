"""How long the offline model thinks over one answer, beside what the same messages cost to serialise.

The floor is `json.dumps` of the very messages the model reads: what any vendor's client must do before it can
ask at all. Each round asks both, in turn.
"""

import asyncio
import json
import statistics
import sys
import time
from typing import Final

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, messages_to_dict

import providers
from graphs import ad_creation
from state import brief
from state.ad import AdState
from tools.registry import definition

ROUNDS: Final = 60
_BRIEFS: Final = (
    ("a bakery in Oslo that opens at six", "english"),
    ("Kawiarnia Pod Lipą, śniadania cały dzień", "polish"),
    ("ร้านกาแฟเปิดใหม่ใกล้สถานีรถไฟฟ้า", "thai"),
    ("云栖茶馆，新茶上市", "chinese"),
)


def main() -> int:
    """Print the table."""
    took_s, floor_s = asyncio.run(_measured())
    ratios = sorted(one / other for one, other in zip(took_s, floor_s, strict=True))
    cuts = statistics.quantiles(took_s, n=100)
    print(f"first answer of a turn: p50 {cuts[49] * 1000:.1f} ms, p99 {cuts[98] * 1000:.1f} ms")
    print(f"writing down its messages: p50 {statistics.median(floor_s) * 1000:.3f} ms")
    print(
        f"ratio {statistics.median(ratios):.0f}x ({ratios[0]:.0f} to {ratios[-1]:.0f}), {len(ratios)} answers"
    )
    return 0


async def _measured() -> tuple[list[float], list[float]]:
    model = providers.load("offline").bind_tools(
        [definition(tool) for tool in ad_creation.SUBJECT.tools.values()]
    )
    took_s: list[float] = []
    floor_s: list[float] = []
    for i in range(ROUNDS + len(_BRIEFS)):
        client, language = _BRIEFS[i % len(_BRIEFS)]
        said = brief.parsed(f"{client}, no. {i}", language=language)
        prompt = ad_creation.system_prompt(AdState(messages=[], brief=said), "ad")
        messages: list[AnyMessage] = [SystemMessage(prompt), HumanMessage(brief.message(said))]
        began = time.perf_counter()
        answer = await model.ainvoke(messages)
        thought = time.perf_counter()
        json.dumps(messages_to_dict(messages))
        written = time.perf_counter()
        if not isinstance(answer, AIMessage) or not answer.tool_calls:
            raise SystemExit("the offline model did not begin with a search")
        # The first answers in a process load the phrasebooks.
        if i >= len(_BRIEFS):
            took_s.append(thought - began)
            floor_s.append(written - thought)
    return took_s, floor_s


if __name__ == "__main__":
    sys.exit(main())
