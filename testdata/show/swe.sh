#!/bin/bash
# Rows, capture, application and grading, on real repositories in sandboxes.
# It needs root (for users in sandboxes), git, python3 with pytest, and for one
# line Docker (testdata/fetch/docker.sh). It takes some minutes.
source "$(dirname "$0")/lib.sh"

show_test "graders x conditions, through Generate" ./examples/internal/grading '^TestGraders$' -timeout 20m
show_test "hacks against pytest grading" ./swe/scaleswe '^(TestHardenedPytest|TestScript|TestInterpreterMissing)$' -timeout 20m -parallel 6
show_test "hacks against SWE-bench grading" ./swe/swebench '^TestGrade$' -timeout 20m -parallel 6
show_test "hacks against SWE-bench Pro grading" ./swe/swepro '^(TestGrade|TestForgedResults)$' -timeout 20m -parallel 6
show_test "preflight: five rows, then from cache" ./examples/preflight '^TestPreflight$'
show_test "grading of stored patches" ./examples/regrade '^TestRegrade$'
show_test "nothing of the solution is left for the agent" ./swe/swepro '^TestNothingHidden$'
show_test "history scrub" ./swe '^TestScrub$'
show_test "repositories, local sandboxes" ./swe '^TestRepositories$' -timeout 20m -parallel 6
with_docker show_test "repositories, containers" ./swe '^TestRepositoriesDocker$' -timeout 20m -parallel 4
show_test "capture and application beside today's" ./swe '^TestCaptureMatrix$' -timeout 20m
show_test "drift" ./swe '^TestDrift$' -parallel 6
show_test "one user, plain directories" ./swe '^TestOtherIsolations$'
show_test "a severed connection at each call" ./swe/scaleswe '^TestSevered$' -timeout 20m
show_test "log parsers" ./swe/swebench '^TestLogs$'
show_test "evaluation scripts" ./swe/swebench '^TestScriptsV4$'
show_test "row vectors, default protocol" ./swe/scaleswe '^TestRow'
show_test "row vectors, SWE-bench" ./swe/swebench '^TestRow'
show_test "reward hacking signals" ./swe '^TestTamperCorpus$'
show_bench "snapshots of 10,000 files" ./swe '^BenchmarkCapture$' -benchtime 1x
finish
