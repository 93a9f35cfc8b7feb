// ioredis as applications use it. Prints what it saw.

import assert from "node:assert/strict";
import { createRequire } from "node:module";

const [folder, address] = process.argv.slice(2);
const { Redis } = createRequire(`${folder}/`)("ioredis");
const [host, port] = address.split(":");
const client = new Redis({ host, port: Number(port), maxRetriesPerRequest: 1 });

assert.equal(await client.ping(), "PONG");
assert.equal(await client.hset("user:1", { city: "Ulm", visits: 1 }), 2);
assert.equal(await client.hincrby("user:1", "visits", 2), 3);
assert.deepEqual(await client.hgetall("user:1"), { city: "Ulm", visits: "3" });
assert.deepEqual(await client.hmget("user:1", "city", "nothing"), ["Ulm", null]);
assert.deepEqual(await client.call("HPEXPIRE", "user:1", "100000", "FIELDS", "2", "city", "nothing"), [1, -2]);
assert.equal(await client.set("text", "a", "EX", 100, "NX"), "OK");
assert.equal(await client.set("text", "b", "NX"), null);
assert.equal(await client.getBuffer("text").then((bytes) => bytes.toString()), "a");

// Commands that are sent without waiting share a connection, and each gets its own answer.
const many = Array.from({ length: 500 }, (_, number) => number);
await Promise.all(many.map((number) => client.set(`p:${number}`, number)));
const read = await Promise.all(many.map((number) => client.get(`p:${number}`)));
assert.deepEqual(read, many.map(String));
const pipelined = await client.pipeline().get("p:1").hget("user:1", "city").incr("user:1").exec();
assert.deepEqual(pipelined.slice(0, 2), [[null, "1"], [null, "Ulm"]]);
assert.match(pipelined[2][0].message, /^WRONGTYPE/);
const multi = await client.multi().hset("user:1", "a", "b").hget("user:1", "a").hlen("user:1").exec();
assert.deepEqual(multi, [[null, 1], [null, "b"], [null, 3]]);

const found = new Set();
for await (const ids of client.scanStream({ match: "p:*", count: 100 })) ids.forEach((id) => found.add(id));
assert.equal(found.size, 500);
const attributes = [];
for await (const part of client.hscanStream("user:1")) attributes.push(...part);
assert.equal(attributes.length, 6);

// A client that lost its connection makes another.
const id = await client.client("ID");
assert.ok(id > 0);
client.disconnect(true);
assert.equal(await client.get("p:7"), "7");
assert.equal(await client.del("user:1", "text"), 2);
await client.quit();
console.log("ioredis works");
