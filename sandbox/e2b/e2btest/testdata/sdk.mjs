// Drives a control plane and an envd by E2B's own SDK. Arguments: the SDK's
// directory, the server's URL, its API key. Each check prints one line; the
// last line is "checks N".
import { pathToFileURL } from "node:url";
import { createHash, randomBytes } from "node:crypto";

const [dir, url, apiKey] = process.argv.slice(2);
const { Sandbox, CommandExitError, NotFoundError, AuthenticationError, SandboxError } = await import(
	pathToFileURL(dir + "/node_modules/e2b/dist/index.mjs").href);
const server = { apiKey, apiUrl: url, sandboxUrl: url };

let checks = 0;
async function check(name, fn) {
	try {
		await fn();
		checks++;
		console.log("ok", name);
	} catch (err) {
		console.log("FAILED", name, err);
		process.exitCode = 1;
	}
}
function equal(got, want, what = "value") {
	if (JSON.stringify(got) !== JSON.stringify(want)) throw new Error(`${what}: got ${JSON.stringify(got)}, want ${JSON.stringify(want)}`);
}
async function rejects(promise, type) {
	try {
		await promise;
	} catch (err) {
		if (type && !(err instanceof type)) throw new Error(`got ${err?.constructor?.name}: ${err}, want ${type.name}`);
		return err;
	}
	throw new Error("did not fail");
}

const sbx = await Sandbox.create("base", { ...server, timeoutMs: 120_000, metadata: { run: "oracle-1", "a": "b c/d" }, envs: { GLOBAL: "g" } });
await check("command", async () => {
	const r = await sbx.commands.run("echo out; echo err >&2", { user: "root" });
	equal([r.exitCode, r.stdout, r.stderr], [0, "out\n", "err\n"]);
});
await check("exit code", async () => {
	const err = await rejects(sbx.commands.run("exit 3", { user: "root" }), CommandExitError);
	equal(err.exitCode, 3);
});
await check("killed by a signal", async () => {
	const err = await rejects(sbx.commands.run("kill -9 $$", { user: "root" }), CommandExitError);
	equal(err.exitCode, -1);
});
await check("user, cwd, environment", async () => {
	const r = await sbx.commands.run('id -un; pwd; echo $A $GLOBAL', { user: "daemon", cwd: "/tmp", envs: { A: "1" } });
	equal(r.stdout, "daemon\n/tmp\n1 g\n");
});
await check("unknown user", async () => { await rejects(sbx.commands.run("true", { user: "nosuchuser" }), AuthenticationError); });
await check("unknown cwd", async () => { await rejects(sbx.commands.run("true", { user: "root", cwd: "/no/such" }), SandboxError); });
await check("timeout", async () => { await rejects(sbx.commands.run("sleep 5", { user: "root", timeoutMs: 500 })); });
await check("background, list, kill", async () => {
	const h = await sbx.commands.run("sleep 30", { user: "root", background: true });
	const list = await sbx.commands.list();
	if (!list.some((p) => p.pid === h.pid)) throw new Error("not listed");
	equal(await sbx.commands.kill(h.pid), true);
	equal(await sbx.commands.kill(999999), false);
	await rejects(h.wait());
});
await check("connect by pid", async () => {
	const h = await sbx.commands.run("sleep 0.5; echo late; exit 4", { user: "root", background: true });
	await h.disconnect();
	const again = await sbx.commands.connect(h.pid);
	const err = await rejects(again.wait(), CommandExitError);
	equal([err.exitCode, err.stdout], [4, "late\n"]);
});
await check("stdin", async () => {
	const h = await sbx.commands.run("cat; exit 7", { user: "root", background: true, stdin: true });
	await sbx.commands.sendStdin(h.pid, "to stdin\n");
	await sbx.commands.closeStdin(h.pid);
	const err = await rejects(h.wait(), CommandExitError);
	equal([err.exitCode, err.stdout], [7, "to stdin\n"]);
});
await check("large output", async () => {
	const r = await sbx.commands.run("head -c 3000000 /dev/zero | tr '\\0' x", { user: "root" });
	equal(r.stdout.length, 3000000);
});
await check("files: text and bytes", async () => {
	const info = await sbx.files.write("/tmp/a b/ü.txt", "text", { user: "root" });
	equal(info.path, "/tmp/a b/ü.txt");
	equal(await sbx.files.read("/tmp/a b/ü.txt", { user: "root" }), "text");
	const bytes = randomBytes(2_000_000);
	await sbx.files.write("/tmp/bytes", new Blob([bytes]), { user: "root" });
	const back = await sbx.files.read("/tmp/bytes", { format: "bytes", user: "root" });
	const sum = (b) => createHash("sha256").update(b).digest("hex");
	equal(sum(back), sum(bytes));
});
await check("files: several at once", async () => {
	const infos = await sbx.files.write([{ path: "/tmp/m/1", data: "1" }, { path: "/tmp/m/2", data: "2" }], { user: "root" });
	equal(infos.map((i) => i.path).sort(), ["/tmp/m/1", "/tmp/m/2"]);
});
await check("files: list, info, rename, remove, exists", async () => {
	equal((await sbx.files.list("/tmp/m", { user: "root" })).map((e) => e.name).sort(), ["1", "2"]);
	const info = await sbx.files.getInfo("/tmp/m/1", { user: "root" });
	equal([info.size, info.type, info.owner], [1, "file", "root"]);
	await sbx.files.rename("/tmp/m/1", "/tmp/m/new/3", { user: "root" });
	equal(await sbx.files.exists("/tmp/m/1", { user: "root" }), false);
	equal(await sbx.files.exists("/tmp/m/new/3", { user: "root" }), true);
	await sbx.files.remove("/tmp/m", { user: "root" });
	equal(await sbx.files.exists("/tmp/m", { user: "root" }), false);
});
await check("files: makeDir", async () => {
	equal(await sbx.files.makeDir("/tmp/dir/sub", { user: "root" }), true);
	equal(await sbx.files.makeDir("/tmp/dir/sub", { user: "root" }), false);
});
await check("files: missing", async () => { await rejects(sbx.files.read("/no/such", { user: "root" }), NotFoundError); });
await check("running, info", async () => {
	equal(await sbx.isRunning(), true);
	const info = await sbx.getInfo();
	equal([info.sandboxId, info.metadata.run, info.state], [sbx.sandboxId, "oracle-1", "running"]);
});
await check("timeout extension", async () => {
	await sbx.setTimeout(600_000);
	const info = await sbx.getInfo();
	if (info.endAt - Date.now() < 500_000) throw new Error("ends at " + info.endAt);
});
await check("list by metadata", async () => {
	for (const metadata of [{ run: "oracle-1" }, { a: "b c/d" }]) {
		const found = await Sandbox.list({ ...server, query: { metadata } }).nextItems();
		equal(found.map((s) => s.sandboxId), [sbx.sandboxId]);
	}
	equal(await Sandbox.list({ ...server, query: { metadata: { run: "other" } } }).nextItems(), []);
});
await check("pages", async () => {
	const more = await Promise.all([1, 2].map(() => Sandbox.create("base", { ...server, metadata: { run: "pages" } })));
	const paginator = Sandbox.list({ ...server, limit: 1, query: { metadata: { run: "pages" } } });
	const seen = [];
	while (paginator.hasNext) seen.push(...(await paginator.nextItems()));
	equal(seen.map((s) => s.sandboxId).sort(), more.map((s) => s.sandboxId).sort());
	await Promise.all(more.map((s) => s.kill()));
});
await check("connect", async () => {
	const again = await Sandbox.connect(sbx.sandboxId, server);
	equal((await again.commands.run("echo again", { user: "root" })).stdout, "again\n");
});
await check("wrong key", async () => { await rejects(Sandbox.create("base", { ...server, apiKey: "e2b_ff" }), AuthenticationError); });
await check("unknown template", async () => { await rejects(Sandbox.create("nosuch", server), SandboxError); });
await check("kill", async () => {
	equal(await sbx.kill(), true);
	equal(await Sandbox.kill(sbx.sandboxId, server), false);
	await rejects(sbx.commands.run("true", { user: "root" }));
	equal(await sbx.isRunning(), false);
});
console.log("checks", checks);
