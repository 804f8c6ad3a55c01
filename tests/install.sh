#!/usr/bin/env bash
# Installs the Debian packages of programs, files and Python modules that are missing.
#
#   tests/install.sh nginx:nginx-light /usr/lib/nginx/modules/ngx_stream_module.so:libnginx-mod-stream python:jwt:python3-jwt
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin

missing=()
for wanted in "$@"; do
  package=${wanted##*:} what=${wanted%:*}
  case $what in
    /*) [ -e "$what" ] ;;
    python:*) /usr/bin/python3 -c "import ${what#python:}" 2>/dev/null ;;
    *) command -v "$what" >/dev/null ;;
  esac || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

sudo=$([ "$(id -u)" = 0 ] || echo sudo)
$sudo apt-get update -qq
# With RUNLEVEL=1, no package starts its service.
$sudo env RUNLEVEL=1 apt-get install -y --no-install-recommends "${missing[@]}"
