"""slime's custom generate function, with agentrl doing the rollouts.

    --custom-generate-function-path agentrl_slime.generate

The first call starts the program `slimebridge`; it ends with this process.
Nothing but Python's standard library (3.10 or newer) is needed.

    AGENTRL_BRIDGE_BIN   the program; "slimebridge" in the PATH if unset
    AGENTRL_BRIDGE_ARGS  further arguments of it, such as "-max 512"
    AGENTRL_BRIDGE_URL   a service that somebody else started; nothing is started then

All else that is set for agentrl in the environment reaches the program.
"""

import array
import asyncio
import atexit
import base64
import copy
import json
import logging
import os
import random
import selectors
import shlex
import subprocess
import threading
import time
import urllib.parse
import urllib.request

logger = logging.getLogger(__name__)

# What of slime's Sample a rollout starts from, and what it sets.
ROW = ("index", "group_index", "rollout_id", "prompt", "label", "metadata", "session_id", "apply_chat_template_kwargs")
RESULT = (
    "rollout_id", "tokens", "response", "response_length", "reward", "loss_mask", "rollout_log_probs",
    "weight_versions", "remove_sample", "metadata", "session_id",
    "rollout_top_p_token_ids", "rollout_top_p_token_offsets",
)
INFOS = ("prefix_cache_info", "spec_info")  # objects of counts
POLL = 0.25  # seconds between looks at slime's abort flag
START = 60  # seconds that the program may take to be ready
END = 60  # seconds that it may take to take everything down
MAX_GONE = 3  # services lost in a row before the run is stopped


class BridgeError(RuntimeError):
    """What stops the run: a wrong configuration, a service that does not stay."""


class BridgeGone(Exception):
    """The service left in the middle of a call."""


async def generate(args, sample, sampling_params, evaluation=False):
    """One rollout of sample: a list of Samples that share rollout_id, as slime's
    fan-out wants it; for an evaluation one Sample with the reward. A rollout
    that failed is one aborted Sample, and no exception."""
    replay = _replay(args, sampling_params)
    body = _request(args, sample, sampling_params, evaluation, replay)
    while not _aborting(args):
        # A service that is being started is not waited for once slime aborts.
        url = await _unless_aborted(args, asyncio.to_thread(_service.url))
        if url is None:
            break
        try:
            answered = await _unless_aborted(args, _post(url, body))
        except BridgeGone as gone:
            _service.lost(url, gone)
            return _shape(args, [_given_up(sample, replay, "bridge_gone", "adapter", str(gone))], evaluation)
        if answered is None:
            break
        status, answer = answered
        _service.gone = 0
        if status == 200:
            return _shape(args, [_result(sample, s, replay) for s in answer["samples"]], evaluation)
        if answer.get("kind") != "busy":
            raise BridgeError(f"agentrl: {answer.get('kind')}: {answer.get('error')}")
        await asyncio.sleep(0.5 + random.random())
    # slime collects these one by one in its abort(): no list.
    return _given_up(sample, replay, "cancelled", "cancelled", "slime aborted the step")


def keep_whole_groups(args, samples, **kwargs):
    """For --dynamic-sampling-filter-path: drops a group of which a rollout was
    aborted. slime's group baseline would count it as a reward of 0."""
    flat = [s for one in samples for s in (one if isinstance(one, list) else [one])]
    return all(s.status.value != "aborted" for s in flat)


def _shape(args, samples, evaluation):
    """As slime's loop reads it: with a reward key, rewards are objects."""
    key = getattr(args, "reward_key", None)
    if evaluation:
        key = getattr(args, "eval_reward_key", None) or key
    if key:
        for sample in samples:
            sample.reward = {key: sample.reward}
    return samples[0] if evaluation else samples


def _request(args, sample, sampling_params, evaluation, replay):
    row = {name: getattr(sample, name, None) for name in ROW}
    row["status"] = sample.status.value
    request = {
        "args": {
            "hf_checkpoint": args.hf_checkpoint,
            "sglang_url": f"http://{args.sglang_router_ip}:{args.sglang_router_port}",
            "tool_call_parser": getattr(args, "sglang_tool_call_parser", None) or "",
            "reasoning_parser": getattr(args, "sglang_reasoning_parser", None) or "",
            "max_context_len": int(getattr(args, "rollout_max_context_len", 0) or 0),
        },
        "sample": row,
        "sampling_params": {k: v for k, v in sampling_params.items() if v is not None},
        "evaluation": evaluation,
        "replay": replay,
    }
    try:
        return json.dumps(request, allow_nan=False).encode()
    except (TypeError, ValueError) as wrong:
        raise BridgeError(f"agentrl: sample {sample.index} holds what JSON cannot: {wrong}; look at its metadata, prompt and label") from wrong


def _replay(args, sampling_params):
    experts = bool(getattr(args, "use_rollout_routing_replay", False))
    custom = sampling_params.get("custom_params") or {}
    return {
        "top_p": bool(custom.get("return_top_p_token_ids")),
        "experts": experts,
        "layers": int(args.num_layers) if experts else 0,
        "top_k": int(args.moe_router_topk) if experts else 0,
        "spec": bool(getattr(args, "sglang_speculative_algorithm", None)),
    }


def _result(sample, answer, replay):
    """The sample with what the rollout made of it. Attributes that agentrl does
    not know stay as they are."""
    out = copy.copy(sample)
    for name in RESULT:
        if name in answer:
            setattr(out, name, answer[name])
    out.status = type(sample.status)(answer["status"])
    for name in INFOS:
        if hasattr(sample, name):
            setattr(out, name, _info(getattr(sample, name), answer.get(name) or {}))
    if replay["experts"]:
        out.rollout_routed_experts = _experts(answer["rollout_routed_experts"], replay)
    return out


def _info(before, counts):
    """The counts of this attempt alone: what a former one left is cleared."""
    info = copy.copy(before)
    for name in vars(info):
        setattr(info, name, 0)
    for name, value in counts.items():
        setattr(info, name, value)
    return info


def _experts(text, replay):
    """[tokens - 1, layers, top_k], as a tensor where there is torch."""
    data = bytearray(base64.b64decode(text))
    layers, top_k = replay["layers"], replay["top_k"]
    try:
        import torch
    except ImportError:
        flat = array.array("i", bytes(data))
        rows = [flat[i : i + top_k].tolist() for i in range(0, len(flat), top_k)]
        return [rows[i : i + layers] for i in range(0, len(rows), layers)]
    return torch.frombuffer(data, dtype=torch.int32).reshape(-1, layers, top_k)


def _given_up(sample, replay, code, kind, message):
    """An aborted sample that is a row again. The attempt is counted, so that it
    does not meet its own session, which may still be on its way out."""
    metadata = dict(sample.metadata or {})
    metadata["attempt"] = int(metadata.get("attempt") or 0) + 1
    metadata["abort_reason"] = "exception:" + code
    metadata["failure"] = {"stage": "", "class": kind, "code": code, "retryable": True, "message": message}
    if _instance(sample, metadata):
        metadata["instance_id"] = _instance(sample, metadata)
    answer = {
        "rollout_id": sample.index if sample.rollout_id is None else sample.rollout_id,
        "tokens": [0, 0], "response": "", "response_length": 1, "loss_mask": [0], "rollout_log_probs": [0.0],
        "reward": 0.0, "weight_versions": [], "remove_sample": True, "status": "aborted", "metadata": metadata,
    }
    if replay["top_p"]:
        answer["rollout_top_p_token_ids"], answer["rollout_top_p_token_offsets"] = [], [0, 0]
    if replay["experts"]:
        answer["rollout_routed_experts"] = base64.b64encode(bytes(4 * replay["layers"] * replay["top_k"])).decode()
    return _result(sample, answer, replay)


def _instance(sample, metadata):
    """The row's id, as a rollout finds it; None where it has none."""
    remote, label = metadata.get("remote_env_info"), sample.label
    return (
        metadata.get("instance_id")
        or (remote.get("instance_id") if isinstance(remote, dict) else None)
        or (label if isinstance(label, str) and len(label) < 256 else None)
    )


def _aborting(args):
    """slime's abort flag: set when a step has its samples and the rest is to end."""
    try:
        from slime.rollout.sglang_rollout import GenerateState
    except ImportError:
        return False
    return bool(GenerateState(args).aborted)


async def _unless_aborted(args, call):
    """The call's answer, or None once slime aborts. Leaving a call of the
    service closes its connection, which ends the rollout and its generations."""
    task = asyncio.ensure_future(call)
    try:
        while not task.done():
            await asyncio.wait({task}, timeout=POLL)
            if not task.done() and _aborting(args):
                return None
        return task.result()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def _post(url, body):
    """POST /v1/generate: (status, answer). BridgeGone if the service leaves."""
    at = urllib.parse.urlsplit(url)
    writer = None
    try:
        reader, writer = await asyncio.open_connection(at.hostname, at.port or 80)
        writer.write(
            f"POST /v1/generate HTTP/1.1\r\nHost: {at.netloc}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body
        )
        await writer.drain()
        head = await reader.readuntil(b"\r\n\r\n")
        status = int(head.split(None, 2)[1])
        length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
        return status, json.loads(await reader.readexactly(length))
    except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, StopIteration, IndexError, ValueError) as wrong:
        raise BridgeGone(f"{type(wrong).__name__}: {wrong}") from wrong
    finally:
        if writer is not None:
            writer.transport.abort()  # at once: what is still buffered is of no use


class _Service:
    """The program, started at the first use and again when it has died. Its
    methods are safe to call from several threads."""

    def __init__(self):
        self._lock = threading.Lock()
        self._process = None
        self._url = None
        self._lost = None  # the URL of the last one that was lost
        self.gone = 0  # services lost in a row

    def url(self):
        with self._lock:
            if self._url and (self._process is None or self._process.poll() is None):
                return self._url
            given = os.environ.get("AGENTRL_BRIDGE_URL")
            at = urllib.parse.urlsplit(given or "")
            if given and (at.scheme != "http" or not at.hostname or at.path not in ("", "/")):
                raise BridgeError(f"agentrl: AGENTRL_BRIDGE_URL={given!r}: want http://HOST:PORT")
            self._url = given.rstrip("/") if given else self._start()
            self._wait()
            return self._url

    def lost(self, url, why):
        logger.warning("agentrl: the service was lost in the middle of a rollout, which is aborted: %s", why)
        with self._lock:
            if url != self._lost:  # else another call has said so
                self._lost, self.gone = url, self.gone + 1
            if self._url == url and os.environ.get("AGENTRL_BRIDGE_URL"):
                self._url = None  # wait for its health before the next call
        if self.gone > MAX_GONE:
            raise BridgeError(f"agentrl: {self.gone} services in a row were lost, the last one by {why}; its own words are in this process's standard error")

    def _start(self):
        program = os.environ.get("AGENTRL_BRIDGE_BIN", "slimebridge")
        command = [program, "-child", *shlex.split(os.environ.get("AGENTRL_BRIDGE_ARGS", ""))]
        try:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        except OSError as wrong:
            raise BridgeError(f"agentrl: {program}: {wrong}; build it with `go build ./examples/slimebridge` and name it in AGENTRL_BRIDGE_BIN") from wrong
        with selectors.DefaultSelector() as ready:  # select() takes no descriptor beyond 1023
            ready.register(self._process.stdout, selectors.EVENT_READ)
            line = self._process.stdout.readline() if ready.select(START) else b""
        try:
            said = json.loads(line)
        except ValueError:
            said = {"error": f"{program} was not ready after {START} s, or ended: {line!r}"}
        if "url" not in said:
            self.stop()
            raise BridgeError(f"agentrl: {said.get('error')}")
        return said["url"]

    def _wait(self):
        end, why = time.monotonic() + START, None
        while time.monotonic() < end:
            try:
                with urllib.request.urlopen(self._url + "/health", timeout=5) as answer:
                    if answer.status == 200:
                        return
            except OSError as wrong:
                why = wrong
            time.sleep(0.2)
        url, self._url = self._url, None
        raise BridgeError(f"agentrl: {url}/health does not answer: {why}")

    def stop(self):
        process, self._process, self._url = self._process, None, None
        if process is None:
            return
        process.stdin.close()  # the program takes its sandboxes down, and ends
        try:
            process.wait(END)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


_service = _Service()
atexit.register(_service.stop)
