#!/usr/bin/env bash
# A page of a thousand rollouts in a headless Chromium: every view is opened and
# looked for what it has to show. With SHOTS=DIR a picture of each is left there.
# AGENTRL_CHROMIUM names the browser; chromium by default.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
[ -z "${SHOTS:-}" ] || mkdir -p "$SHOTS"
export AGENTRL_CHROMIUM=${AGENTRL_CHROMIUM:-chromium}
said=$(AGENTRL_SHOTS=${SHOTS:-} go test -count=1 -v -timeout 20m -run 'InChromium$' ./examples/report | tee /dev/stderr)
! grep -q -- '--- SKIP' <<<"$said"
