// Creates a topic, puts two messages with a key, and reads them in a consumer group.
interface Read {
  partition: number;
  offset: number;
  key?: string;
  text?: string;
}

const rest = `${process.env.TALOS_URL}/rest/v1`;
const key = Buffer.from(process.env.TALOS_KEY ?? "").toString("base64");

async function call<T>(method: string, path: string, body?: object): Promise<T> {
  const reply = await fetch(`${rest}/${path}`, {
    method,
    headers: { Authorization: `Basic ${key}`, "Content-Type": "application/json" },
    body: body && JSON.stringify(body),
  });
  const text = await reply.text();
  if (!reply.ok) throw new Error(`${method} ${path}: ${reply.status} ${text}`);
  return (text ? JSON.parse(text) : undefined) as T;
}

async function main(topic?: string): Promise<void> {
  if (!topic) throw new Error("usage: quickstart.ts TOPIC");
  await call("POST", "topics", { name: topic, partitions: 2 });
  const messages = ["hello", "world"].map((text) => ({ text, key: "ann" }));
  await call("POST", `topics/${topic}/messages`, { messages });

  const workers = `topics/${topic}/groups/readers/workers`;
  const member = await call<{ worker: string }>("POST", workers);
  const worker = `${workers}/${member.worker}`;
  for (let read = 0; read < 2; ) {
    const found = await call<{ messages: Read[] }>("GET", `${worker}/messages?encoding=text&wait_s=10`);
    const offsets: Record<string, number> = {};
    for (const message of found.messages) {
      console.log("read", message.key, message.text);
      offsets[message.partition] = message.offset;
      read += 1;
    }
    // The group continues after these.
    if (found.messages.length) await call("POST", `${worker}/commits`, { offsets });
  }
  await call("DELETE", worker);
}

main(process.argv[2]).catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
