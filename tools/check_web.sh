#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Checks that web/dist, which the launcher embeds, is up to date with web/. Needs the packages that
# `npm ci` installs in web/. Without them it prints a note and succeeds, because a build of lockstep
# does not need them.
set -euo pipefail
cd "$(dirname "$0")/../web"

if [[ ! -x node_modules/.bin/vite ]]; then
  echo "web: no node_modules, web/dist not checked; run npm ci in web/"
  exit 0
fi
if grep -nE '"resolved"' package-lock.json; then
  echo "web: package-lock.json contains a registry; run npm install with omit-lockfile-registry-resolved" >&2
  exit 1
fi
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
node_modules/.bin/tsc --noEmit
node_modules/.bin/vite build --logLevel warn --emptyOutDir --outDir "$made"
if ! diff -rq "$made" dist; then
  echo "web: web/dist is out of date; run npm run build in web/ and commit it" >&2
  exit 1
fi
bytes=$(cat dist/* | wc -c)
if ((bytes > 300000)); then
  echo "web: the page has $bytes bytes; the limit is 300000" >&2
  exit 1
fi
echo "web: web/dist is up to date, $bytes bytes"
