#!/usr/bin/env bash
# The figures of what people use: preflight, telemetry, report, record and replay, the slime bridge, documentation.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

show_test "preflight: all is well" ./examples/doctor TestAllIsWell
show_test "preflight: each fault is named, and nothing else" ./examples/doctor TestEachFaultIsNamedAndNothingElse
show_cmd "telemetry: spans, metrics, dashboard" sh -c 'cd examples/telemetry && go test -count=1 -v . | grep -o "figure: .*" | sed "s/figure: //" | paste -sd";" | grep spans'
show_bench "telemetry: overhead without a provider, a whole rollout" . BenchmarkTelemetryWithoutProvider -benchmem
show_test "slime bridge: group of 8, back-pressure" ./examples/slimebridge TestGroupOfEight
show_test "slime bridge: fan-out" ./examples/slimebridge TestFanOut
show_test "slime bridge: evaluation" ./examples/slimebridge TestEvaluation
show_test "slime bridge: abort flag, and the samples come back" ./examples/slimebridge TestAbortAndComeBack
show_test "slime bridge: cancellation" ./examples/slimebridge TestCancellation
show_test "slime bridge: a service that dies, a client that vanishes" ./examples/slimebridge 'TestServiceThatDies|TestClientThatVanishes'
show_test "slime bridge: clear errors" ./examples/slimebridge TestClearErrors
show_test "slime bridge: top-p ids and routed experts on every sample" ./examples/slimebridge 'TestReplay|TestTopP|TestExperts'
show_test "documentation: codes, abort reasons, links" . TestGuide

finish
