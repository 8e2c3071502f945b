#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Whether web/dist, which the launcher embeds, is what web/ builds to. Needs what `npm ci` in web/
# brings; says so and is content where that is not here, as a build of lockstep does not need it.
set -euo pipefail
cd "$(dirname "$0")/../web"

if [[ ! -x node_modules/.bin/vite ]]; then
  echo "web: no node_modules, so web/dist is not compared; npm ci in web/ brings them"
  exit 0
fi
if grep -nE '"resolved"' package-lock.json; then
  echo "web: package-lock.json names a registry; npm install with omit-lockfile-registry-resolved" >&2
  exit 1
fi
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
node_modules/.bin/tsc --noEmit
node_modules/.bin/vite build --logLevel warn --emptyOutDir --outDir "$made"
if ! diff -rq "$made" dist; then
  echo "web: web/dist is not what the sources build to; npm run build in web/, and commit it" >&2
  exit 1
fi
bytes=$(cat dist/* | wc -c)
if ((bytes > 300000)); then
  echo "web: the page has $bytes bytes; 300000 are enough for a page in a launcher" >&2
  exit 1
fi
echo "web: web/dist is what the sources build to, $bytes bytes"
