#!/usr/bin/env bash
# Installs the Debian packages of programs, files and Python modules that are missing: as root, or with SUDO=sudo. Otherwise it
# only names them; the suites that need them do not run, and are counted.
#
#   tests/install.sh nginx:nginx-light /usr/lib/nginx/modules/ngx_stream_module.so:libnginx-mod-stream python:jwt:python3-jwt
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin

missing=() packages=()
for wanted in "$@"; do
  what=${wanted%:*}
  case $what in
    /*) [ -e "$what" ] ;;
    python:*) /usr/bin/python3 -c "import ${what#python:}" 2>/dev/null ;;
    *) command -v "$what" >/dev/null ;;
  esac || { missing+=("$what"); packages+=("${wanted##*:}"); }
done
[ ${#missing[@]} -gt 0 ] || exit 0

install="apt-get install --yes --no-install-recommends ${packages[*]}"
if ! command -v apt-get >/dev/null || { [ "$(id -u)" != 0 ] && [ -z "${SUDO:-}" ]; }; then
  echo "not installed: ${missing[*]}. Debian and Ubuntu: $install, or make with SUDO=sudo"
  exit 0
fi
sudo=$([ "$(id -u)" = 0 ] || echo "$SUDO")
$sudo apt-get update -qq
# With RUNLEVEL=1, no package starts its service.
$sudo env RUNLEVEL=1 $install
