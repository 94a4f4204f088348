#!/usr/bin/env bash
# Trajectories: exact continuation, proof, labels, linear memory.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

T=./adapter/trajectory

show_test "canonical agreement" $T '^TestCanonicalAgrees$'
show_test "canonical, written out plainly" $T '^TestCanonicalAgreesWithItsDescription$'
show_test "exact over random conversations" $T '^TestExactOverRandomConversations$'
show_test "canonical over the same conversations" $T '^TestCanonicalOverRandomConversations$'
show_test "exact over arbitrary prompts" $T '^TestExactOfArbitraryPrompts$'
show_test "clients and templates: prompt, segment, mask" $T '^TestScenarios$'
show_test "replayed messages" $T '^TestReplayed'
show_test "corruptions" $T '^TestCheckSegment'
show_test "untrained, cut, copied, concurrent" $T '^Test(RecordRefuses|Untrained|MaxTokens|Segments|SegmentJSON|ConcurrentUse)' -race
show_test "ATIF" $T '^TestATIF'
show_test "engine's own log, aborts, new weights, retries" ./adapter '^TestTrajectoryAgainstTheEnginesLog$'
show_test "recorded clients" ./adapter '^TestTrajectoryOf'
show_bench "record and export, 100 turns" $T '^BenchmarkSession$' -benchtime 20x
show_bench "export" $T '^BenchmarkExport$' -benchtime 20x
show_bench "sessions alive" $T '^BenchmarkAlive$' -benchtime 1x

finish
