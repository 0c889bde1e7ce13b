// The same few words for each library: connect, send, hear, end. What a library builds,
// parses and answers stays its own.
import { webcrypto } from "node:crypto";
import { createRequire } from "node:module";
import { WebSocket } from "ws";

globalThis.crypto ??= webcrypto; // Node has it of its own from version 20
globalThis.WebSocket ??= WebSocket; // and this from version 22

const { client, jid, xml } = await import("@xmpp/client");
const strophe = await import("strophe.js");
const stropheOld = createRequire(import.meta.url)("strophe-old");

const PATIENCE_MS = 15_000;

/** What has been heard and not yet been asked for. */
class Ear {
  #said = [];
  #waiting = [];

  take(stanza) {
    const at = this.#waiting.findIndex(({ wanted }) => wanted(stanza));
    if (at < 0) this.#said.push(stanza);
    else this.#waiting.splice(at, 1)[0].resolve(stanza);
  }

  next(what, wanted) {
    const at = this.#said.findIndex(wanted);
    if (at >= 0) return Promise.resolve(this.#said.splice(at, 1)[0]);
    return new Promise((resolve, reject) => {
      const late = setTimeout(
        () => reject(new Error(`never heard ${what}; heard ${JSON.stringify(this.#said)}`)),
        PATIENCE_MS,
      );
      this.#waiting.push({ wanted, resolve: (found) => (clearTimeout(late), resolve(found)) });
    });
  }
}

function within(what, promise) {
  return new Promise((resolve, reject) => {
    const late = setTimeout(() => reject(new Error(`${what}: too late`)), PATIENCE_MS);
    promise.then(resolve, reject).finally(() => clearTimeout(late));
  });
}

// -- @xmpp/client ------------------------------------------------------------

function xmppTree([name, attributes, ...children]) {
  const inner = children.map((one) => (typeof one === "string" ? one : xmppTree(one)));
  return xml(name, { ...attributes }, ...inner);
}

async function xmppClient({ url, domain, account, token, resource }) {
  const ear = new Ear();
  const entity = client({ service: url, domain, username: account, password: token, resource });
  entity.reconnect.stop();
  const errors = [];
  entity.on("error", (error) => errors.push(String(error)));
  entity.on("stanza", (stanza) => {
    const x = stanza.getChild("x");
    ear.take({
      name: stanza.name,
      ...stanza.attrs,
      body: stanza.getChildText("body"),
      error: stanza.getChild("error")?.children[0]?.name,
      codes: (x?.getChildren("status") ?? []).map((one) => one.attrs.code),
    });
  });
  const own = await within("login", entity.start());
  return {
    jid: own.toString(),
    errors,
    // this library lower-cases the account part of every address it handles
    address: (text) => jid(text).toString(),
    send: (tree) => entity.send(xmppTree(tree)),
    ask: (tree) => within("iq", entity.iqCaller.request(xmppTree(tree))),
    next: (what, wanted) => ear.next(what, wanted),
    end: () => within("close", entity.stop()),
  };
}

// -- strophe.js --------------------------------------------------------------

function stropheTree(library, [name, attributes, ...children]) {
  const builder = library.$build(name, { ...attributes });
  for (const one of children) {
    if (typeof one === "string") builder.t(one);
    else builder.cnode(stropheTree(library, one).tree()).up();
  }
  return builder;
}

const named = (node, name) =>
  Array.from(node?.childNodes ?? []).filter((one) => one.nodeName === name);

function heard(node) {
  const said = { name: node.nodeName };
  for (const one of Array.from(node.attributes)) said[one.name] = one.value;
  said.body = named(node, "body")[0]?.textContent ?? null;
  said.error = named(node, "error")[0]?.childNodes[0]?.nodeName;
  said.codes = named(named(node, "x")[0], "status").map((one) => one.getAttribute("code"));
  return said;
}

function stropheClient(library) {
  const { Strophe } = library;
  return async ({ url, domain, account, token, resource }) => {
    const ear = new Ear();
    const connection = new Strophe.Connection(url, { protocol: "ws" });
    const errors = [];
    connection.addHandler((node) => (ear.take(heard(node)), true), null, null);
    let over;
    const ended = new Promise((resolve) => (over = resolve));
    await within("login", new Promise((resolve, reject) => {
      connection.connect(`${account}@${domain}/${resource}`, token, (status, why) => {
        if (status === Strophe.Status.CONNECTED) resolve();
        else if (status === Strophe.Status.AUTHFAIL) reject(new Error(`refused: ${why}`));
        else if (status === Strophe.Status.CONNFAIL) reject(new Error(`failed: ${why}`));
        else if (status === Strophe.Status.DISCONNECTED) over();
      });
    }));
    // strophe forgets handlers when it connects
    connection.addHandler((node) => (ear.take(heard(node)), true), null, null);
    return {
      jid: connection.jid,
      errors,
      address: (text) => text,
      send: async (tree) => connection.send(stropheTree(library, tree)),
      ask: (tree) => within("iq", new Promise((resolve, reject) => {
        connection.sendIQ(stropheTree(library, tree), resolve, reject);
      })),
      next: (what, wanted) => ear.next(what, wanted),
      end: () => {
        connection.disconnect("done");
        return within("close", ended);
      },
    };
  };
}

export const libraries = {
  "@xmpp/client": xmppClient,
  "strophe.js": stropheClient(strophe),
  "strophe-old": stropheClient(stropheOld),
};
