#!/usr/bin/env bash
# Puts the page docs/contributing/upstream-tests.md together from what `make upstream` has measured.
set -euo pipefail
cd "$(dirname "$0")"
cat upstream.md
printf '\n## Result\n\n%s\n%s\n' '| Suite | Kubernetes | Level | kube-proxy | Passed | Failed | Skipped by itself | Date |' \
  '|---|---|---|---|---|---|---|---|'
sort -u ../../bin/measured/upstream-*.rows
printf '\n## Failed, skipped, left out\n\n%s\n%s\n' '| Suite | Outcome | Tests | Why |' '|---|---|---|---|'
sort -u ../../bin/measured/upstream-*.details
