// The hook of @langchain/langgraph-sdk, used as Agent Chat UI does: runs and their streams.
import { useStream } from "@langchain/langgraph-sdk/react";
import { Button, parameters, rememberThread, humanMessage, record, View } from "./view.jsx";

export function Page() {
  const stream = useStream({
    apiUrl: parameters.api,
    apiKey: parameters.key,
    assistantId: parameters.graph,
    threadId: window.thread ?? null,
    onThreadId: rememberThread,
    reconnectOnMount: true,
    fetchStateHistory: true,
    onCustomEvent: (data) => record.ticks.push(data),
    onUpdateEvent: (data, { namespace = [] } = {}) => record.namespaces.push([...namespace, ...Object.keys(data)]),
  });
  const submit = (input, more) => stream.submit(input, { streamSubgraphs: true, streamResumable: true, ...more });
  const before = (message) => ({ checkpoint: stream.getMessagesMetadata(message)?.firstSeenState?.parent_checkpoint });
  const Edit = ({ message, words }) => (
    <>
      <Button name="Edit" onPress={() => submit(humanMessage(words), before(message))} />
      {stream.getMessagesMetadata(message)?.branchOptions?.map((branch, index) => (
        <Button key={branch} name={`Branch ${index}`} onPress={() => stream.setBranch(branch)} />
      ))}
    </>
  );
  return (
    <View
      stream={stream}
      progress={stream.toolProgress}
      Edit={Edit}
      onSay={(words) => submit(humanMessage(words))}
      onAnswer={(_, answer) => submit(null, { command: { resume: answer } })}
      onAgain={() => submit(undefined, before(stream.messages.at(-1)))}
      onChange={(words) => stream.client.threads.updateState(window.thread, { values: JSON.parse(words) })}
    />
  );
}
