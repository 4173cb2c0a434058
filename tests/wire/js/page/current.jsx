// The hook of @langchain/react: commands, and one log of events for each thread.
import { useChannelEffect, useMessageMetadata, useStream } from "@langchain/react";
import { Button, chosen, remembered, said, seen, View } from "./view.jsx";

const fetch = (url, init) => window.fetch(url, { ...init, headers: { ...init?.headers, "X-Api-Key": chosen.key } });
/** Over a web socket, which a page cannot give headers. */
const socket = {
  transport: "websocket",
  ...(chosen.key && {
    callerOptions: { fetch },
    webSocketFactory: (url) => new WebSocket(url, ["bearer", chosen.key]),
  }),
};

export function Page() {
  const stream = useStream({
    apiUrl: chosen.api,
    assistantId: chosen.graph,
    threadId: chosen.thread ?? null,
    onThreadId: remembered,
    ...(chosen.transport ? socket : { apiKey: chosen.key }),
    reconnectDelayMs: () => 100,
  });
  useChannelEffect(stream, ["custom"], { replay: true, onEvent: (event) => seen.ticks.push(event.params.data) });
  const forkFrom = useMessageMetadata(stream, stream.messages.at(-1)?.id)?.parentCheckpointId;
  const Edit = ({ message, words }) => <Button name="Edit" onPress={() => edit(stream, message, words)} />;
  return (
    <View
      stream={stream}
      graphs={[...stream.subgraphs.values()]}
      Edit={Edit}
      onSay={(words) => stream.submit(said(words))}
      // What goes wrong is shown by the hook, too.
      onAnswer={(question, answer) => stream.respond(answer, { interruptId: question.id }).catch(() => {})}
      onAgain={() => stream.submit(null, { forkFrom })}
      onChange={(words) => stream.client.threads.updateState(stream.threadId, { values: JSON.parse(words) })}
    />
  );
}

/** Say something instead of a message: the hook itself knows only the place before the newest state with it. */
async function edit(stream, message, words) {
  const states = await stream.client.threads.getHistory(stream.threadId);
  const first = states.findLast((state) => state.values.messages?.some(({ id }) => id === message.id));
  await stream.submit(said(words), { forkFrom: first.parent_checkpoint.checkpoint_id });
}
