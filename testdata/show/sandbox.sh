#!/bin/bash
# What the sandboxes must show: one contract on every backend, E2B by the bytes
# and under faults, containers, durable jobs, reaping, memory and speed.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

[ -n "${AGENTRL_NO_DOCKER:-}" ] || bash testdata/fetch/docker.sh
bash testdata/fetch/e2bsdk.sh

show_test 'contract: fake' ./sandbox/sandboxtest '^TestFakeContract$' -race
show_test 'contract: local, namespaces and overlay' ./sandbox/local '^TestNamespaces$' -race -timeout 20m
show_test 'contract: local, plain and user namespace, as an ordinary user' ./sandbox/local '^TestOrdinaryUser$' -timeout 20m
show_test 'contract: local, an image of busybox' ./sandbox/local '^TestBusybox$' -timeout 20m
show_test 'reap: local' ./sandbox/local '^(TestReapNamespaces|TestReapPlain)$'
show_test 'ledger' ./sandbox '^(TestLedger.*|TestReap.*)$' -race
show_test 'contract: e2b' ./sandbox/e2b '^TestContract$' -timeout 20m
with_docker show_test 'contract: docker' ./sandbox/docker '^TestContract$' -timeout 20m
show_test 'e2b: measured behaviours' ./sandbox/e2b/e2btest '^TestMeasured$'
show_test "e2b: the double judged by E2B's own SDK" ./sandbox/e2b/e2btest '^TestOracle$'
show_test 'e2b: fault matrix' ./sandbox/e2b '^TestFaults$' -timeout 20m
show_test 'e2b: faults for ever' ./sandbox/e2b '^TestFaultsForEver$'
show_test 'e2b: refusals' ./sandbox/e2b '^TestRefusals$'
show_test 'e2b: creation' ./sandbox/e2b '^(TestCreate.*|TestLostCreate|TestCancelledCreate|TestRateLimit|TestIgnoredImage)$'
show_test 'e2b: 200 MB in constant memory' ./sandbox/e2b '^TestConstantMemory$'
with_docker show_test 'docker: 200 MB in constant memory' ./sandbox/docker '^TestConstantMemory$'
with_docker show_test 'docker: broken connections' ./sandbox/docker '^(TestCuts|TestKilledUnderCommand)$'
show_test 'egress ignored by a server' ./sandbox/e2b '^TestEgressIgnored$'
show_test 'reap: e2b' ./sandbox/e2b '^TestReap$'
with_docker show_test 'reap: docker' ./sandbox/docker '^TestReap$'
show_bench 'speed: local' ./sandbox/local '^BenchmarkLocal$' -timeout 20m
show_bench 'speed: e2b' ./sandbox/e2b '^(BenchmarkSandbox|BenchmarkDataFrame)$' -timeout 20m
show_bench 'e2b: requests of 500 waiting jobs' ./sandbox/e2b '^BenchmarkWaiting$' -benchtime 1x
with_docker show_bench 'speed: docker' ./sandbox/docker '^BenchmarkSandbox$' -timeout 20m
show_test '2,000 calls, 16 slots, 30 s boots, in virtual time' . '^TestWaitingIsNotChargedToTheGuard$'
show_test '2,000 creates at 5/s, 1,000 alive' . '^TestCreationRateAndLiveCapAreKept$'
show_test '429 with and without Retry-After' . '^TestRateLimitIsWaitedOut$'
show_test 'circuit breaker' . '^TestBreaker'
finish
