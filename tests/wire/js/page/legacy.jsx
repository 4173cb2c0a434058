// The hook of @langchain/langgraph-sdk, used as Agent Chat UI does: runs and their streams.
import { useStream } from "@langchain/langgraph-sdk/react";
import { Button, chosen, remembered, said, seen, View } from "./view.jsx";

export function Page() {
  const stream = useStream({
    apiUrl: chosen.api,
    apiKey: chosen.key,
    assistantId: chosen.graph,
    threadId: window.thread ?? null,
    onThreadId: remembered,
    reconnectOnMount: true,
    fetchStateHistory: true,
    onCustomEvent: (told) => seen.ticks.push(told),
    onUpdateEvent: (told, { namespace = [] } = {}) => seen.places.push([...namespace, ...Object.keys(told)]),
  });
  const submit = (input, more) => stream.submit(input, { streamSubgraphs: true, streamResumable: true, ...more });
  const before = (message) => ({ checkpoint: stream.getMessagesMetadata(message)?.firstSeenState?.parent_checkpoint });
  const Edit = ({ message, words }) => (
    <>
      <Button name="Edit" onPress={() => submit(said(words), before(message))} />
      {stream.getMessagesMetadata(message)?.branchOptions?.map((branch, place) => (
        <Button key={branch} name={`Branch ${place}`} onPress={() => stream.setBranch(branch)} />
      ))}
    </>
  );
  return (
    <View
      stream={stream}
      progress={stream.toolProgress}
      Edit={Edit}
      onSay={(words) => submit(said(words))}
      onAnswer={(_, answer) => submit(null, { command: { resume: answer } })}
      onAgain={() => submit(undefined, before(stream.messages.at(-1)))}
      onChange={(words) => stream.client.threads.updateState(window.thread, { values: JSON.parse(words) })}
    />
  );
}
