// The hook of @langchain/react, which sends commands and reads one event log for each thread.
import { useChannelEffect, useMessageMetadata, useStream } from "@langchain/react";
import { Button, parameters, rememberThread, humanMessage, record, View } from "./view.jsx";

const fetch = (url, init) => window.fetch(url, { ...init, headers: { ...init?.headers, "X-Api-Key": parameters.key } });
/** Options for a web socket, to which a page cannot add headers. */
const socket = {
  transport: "websocket",
  ...(parameters.key && {
    callerOptions: { fetch },
    webSocketFactory: (url) => new WebSocket(url, ["bearer", parameters.key]),
  }),
};

export function Page() {
  const stream = useStream({
    apiUrl: parameters.api,
    assistantId: parameters.graph,
    threadId: parameters.thread ?? null,
    onThreadId: rememberThread,
    ...(parameters.transport ? socket : { apiKey: parameters.key }),
    reconnectDelayMs: () => 100,
  });
  useChannelEffect(stream, ["custom"], { replay: true, onEvent: (event) => record.ticks.push(event.params.data) });
  const forkFrom = useMessageMetadata(stream, stream.messages.at(-1)?.id)?.parentCheckpointId;
  const Edit = ({ message, words }) => <Button name="Edit" onPress={() => edit(stream, message, words)} />;
  return (
    <View
      stream={stream}
      graphs={[...stream.subgraphs.values()]}
      Edit={Edit}
      onSay={(words) => stream.submit(humanMessage(words))}
      // The hook shows the error, too.
      onAnswer={(question, answer) => stream.respond(answer, { interruptId: question.id }).catch(() => {})}
      onAgain={() => stream.submit(null, { forkFrom })}
      onChange={(words) => stream.client.threads.updateState(stream.threadId, { values: JSON.parse(words) })}
    />
  );
}

/** Send words instead of a message: the hook itself knows only the checkpoint before the newest state with it. */
async function edit(stream, message, words) {
  const states = await stream.client.threads.getHistory(stream.threadId);
  const first = states.findLast((state) => state.values.messages?.some(({ id }) => id === message.id));
  await stream.submit(humanMessage(words), { forkFrom: first.parent_checkpoint.checkpoint_id });
}
