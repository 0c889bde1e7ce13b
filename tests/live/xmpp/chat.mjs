// Two players of a real metagame, each on the library named: log in, join, say, whisper, leave.
// Reads one JSON object from standard input and prints one line of JSON at the end.
import assert from "node:assert/strict";
import { text } from "node:stream/consumers";

import { libraries } from "./clients.mjs";

const MUC = "http://jabber.org/protocol/muc";
const ROOM = "City-real-1";

const told = JSON.parse(await text(process.stdin));
const room = `${ROOM}@muc.${told.domain}`;

async function player(part) {
  const { id, token, name } = told.players[part];
  const resource = `V2:Word:WIN::${part.repeat(32).slice(0, 32)}`;
  const where = { url: told.url, domain: told.domain, account: id, token, resource };
  const made = await libraries[told.libraries[part]](where);
  assert.equal(made.jid.toLowerCase(), `${id}@${told.domain}/${resource}`.toLowerCase());
  return { ...made, account: id, nick: `${name}:${id}:${resource}` };
}

async function join(who) {
  await who.send(["presence", { to: `${room}/${who.nick}` }, ["x", { xmlns: MUC }]]);
  const own = await who.next("its own presence", (s) => s.codes.includes("110"));
  assert.equal(own.from, `${room}/${who.nick}`);
}

const ann = await player("a");
const bob = await player("b");
try {
  await ann.ask(["iq", { type: "get", id: "d1" }, ["ping", { xmlns: "urn:xmpp:ping" }]]);
  await join(ann);
  await join(bob);
  const seen = await ann.next("bob come", (s) => s.name === "presence" && s.from?.includes(bob.nick));
  assert.equal(seen.type, undefined);

  const words = "hello <&> \"ünïcode\" 🐉";
  await ann.send(["message", { to: room, type: "groupchat", id: "m1" }, ["body", {}, words]]);
  for (const who of [ann, bob]) {
    const line = await who.next("the line", (s) => s.name === "message" && s.type === "groupchat");
    assert.deepEqual([line.body, line.id, line.from], [words, "m1", `${room}/${ann.nick}`]);
  }

  const to = bob.address(`${bob.account}@${told.domain}`);
  await ann.send(["message", { to, type: "chat", id: "w1" }, ["body", {}, "psst"]]);
  const whispered = await bob.next("the whisper", (s) => s.type === "chat");
  assert.deepEqual([whispered.body, whispered.from.split("/")[0]],
    ["psst", `${ann.account}@${told.domain}`]);

  const lower = whispered.from.replace(ann.account, ann.account.toLowerCase());
  await bob.send(["message", { to: lower, type: "chat", id: "w2" }, ["body", {}, "back"]]);
  assert.equal((await ann.next("the answer", (s) => s.type === "chat")).body, "back");

  const strange = `Party-not-mine@muc.${told.domain}/${ann.nick}`;
  await ann.send(["presence", { to: strange }, ["x", { xmlns: MUC }]]);
  assert.equal((await ann.next("a refusal", (s) => s.type === "error")).error, "forbidden");

  await bob.send(["presence", { to: `${room}/${bob.nick}`, type: "unavailable" }]);
  for (const who of [ann, bob]) {
    const gone = await who.next("bob go", (s) => s.type === "unavailable");
    assert.deepEqual([gone.from, gone.codes], [`${room}/${bob.nick}`, who === bob ? ["110"] : []]);
  }
} finally {
  await ann.end();
  await bob.end();
}
assert.deepEqual([ann.errors, bob.errors], [[], []]);
console.log(JSON.stringify({ jids: [ann.jid, bob.jid] }));
process.exit(0);
