"""Plays slime's rollout loop for one scenario: drive.py SCENARIO JOB.json.

Prints JSON lines; what a call of generate returned is printed sample by sample.
"""

import asyncio
import copy
import dataclasses
import json
import os
import resource
import sys
import time
import types
import urllib.request
import uuid

import agentrl_slime
from slime.rollout.sglang_rollout import GenerateState
from slime.utils.types import PrefixCacheInfo, Sample, SpecInfo


def say(**fields):
    print(json.dumps(fields, default=lambda v: v.value), flush=True)


def show(results):
    for place, result in enumerate(results):
        for sample in result if isinstance(result, list) else [result]:
            say(place=place, listed=isinstance(result, list), sample=dataclasses.asdict(sample))


def health():
    with urllib.request.urlopen(agentrl_slime._service.url() + "/health") as answer:
        return json.load(answer)


async def group(args, samples, params, evaluation=False):
    """A group as slime runs it: a session id for each sample, all at once. A
    sample that is a list or was done before goes through unchanged."""
    for sample in samples:
        if sample.session_id is None:
            sample.session_id = str(uuid.uuid4())
    calls = [agentrl_slime.generate(args, s, dict(params), evaluation=evaluation) for s in samples]
    return await asyncio.gather(*calls)


async def all_live(n):
    while (await asyncio.to_thread(health))["live"] < n:
        await asyncio.sleep(0.1)
    await asyncio.sleep(0.5)


async def until_idle():
    start = time.monotonic()
    while (await asyncio.to_thread(health))["live"] > 0:
        await asyncio.sleep(0.1)
    return time.monotonic() - start


async def abort(args, samples, params):
    running = asyncio.ensure_future(group(args, samples, params))
    await all_live(len(samples))
    start = time.monotonic()
    GenerateState(args).aborted = True
    back = await running
    say(abort_seconds=time.monotonic() - start, idle_seconds=await until_idle())
    show(back)
    GenerateState(args).aborted = False
    show(await group(args, back, params))


async def cancel(args, samples, params):
    running = [asyncio.ensure_future(agentrl_slime.generate(args, s, params)) for s in samples]
    await all_live(len(samples))
    for task in running:
        task.cancel()
    ended = await asyncio.gather(*running, return_exceptions=True)
    say(cancelled=sum(isinstance(e, asyncio.CancelledError) for e in ended), idle_seconds=await until_idle())


async def lost(args, samples, params):
    running = asyncio.ensure_future(group(args, samples, params))
    await all_live(len(samples))
    agentrl_slime._service._process.kill()
    back = await running
    show(back)
    show(await group(args, [s[0] for s in back], params))


async def slowstart(args, samples, params):
    running = asyncio.ensure_future(group(args, samples, params))
    await asyncio.sleep(1)
    start = time.monotonic()
    GenerateState(args).aborted = True
    back = await running
    say(abort_seconds=time.monotonic() - start)
    show(back)


async def crowded(args, samples, params):
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    show(await group(args, samples, params))
    say(health=health(), place=len(held))


async def nan(args, samples, params):
    samples[0].metadata["weight"] = float("nan")
    await group(args, samples, params)


async def vanish(args, samples, params):
    running = asyncio.ensure_future(group(args, samples, params))
    await all_live(len(samples))
    say(service=agentrl_slime._service._process.pid)
    await running


async def main(scenario, job):
    args = types.SimpleNamespace(**job["args"])
    samples = [Sample(index=i, **copy.deepcopy(row)) for i, row in enumerate(job["rows"])]
    for sample in samples:  # what a former attempt has left
        sample.prefix_cache_info, sample.spec_info = PrefixCacheInfo(7, 77), SpecInfo(1, 2, 3, 4)
    try:
        match scenario:
            case "group":
                show(await group(args, samples, job["params"]))
                say(health=health())
            case "evaluation":
                show(await group(args, samples, job["params"], evaluation=True))
            case _:
                await globals()[scenario](args, samples, job["params"])
    except Exception as error:
        say(error=f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    with open(sys.argv[2]) as f:
        asyncio.run(main(sys.argv[1], json.load(f)))
