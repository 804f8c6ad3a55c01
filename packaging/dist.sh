#!/usr/bin/env bash
# Builds what a release consists of, in dist/: the archive, its debug symbols, the Debian package, the
# container image, the lists of components (SBOM) and the checksums. `make dist` runs it.
#
# DIST_BINARY=FILE packs a program that is already built. Its debug symbols are split off, if it has any.
# SOURCE_DATE_EPOCH is the time of every packed file; the default is that of the last commit.
set -euo pipefail
cd "$(dirname "$0")/.."

CARGO=${CARGO:-cargo}
CARGO_DEB=3.8.0
CARGO_CYCLONEDX=0.5.9
# Features of a release besides the default ones: an operator needs them when something is wrong already.
export RELEASE_FEATURES=desktop,otlp,profiles

say() { printf '== %s\n' "$*"; }

# A tool of that version in target/tools, which is installed there when it is missing.
tool() { "$CARGO" install --quiet --locked --root target/tools "$1@$2"; }

SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH
version=$("$CARGO" pkgid -p watchfire-cli)
version=${version##*[@#]}
host=$(rustc -vV | sed -n 's/^host: //p')
name=watchfire-$version-$host
staging=dist/staging

binary=${DIST_BINARY:-}
if [ -z "$binary" ]; then
  say "building the program"
  # With --target, the flags apply to the program alone. They remove the paths of this machine from it.
  RUSTFLAGS="${RUSTFLAGS:-} --remap-path-prefix=$PWD=/watchfire --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo" \
    "$CARGO" build --locked --release --target "$host" -p watchfire-cli --features "$RELEASE_FEATURES"
  binary=${CARGO_TARGET_DIR:-target}/$host/release/watchfire
fi

rm -rf dist
mkdir -p "$staging/$name"

say "splitting the debug symbols off"
objcopy --only-keep-debug "$binary" "$staging/watchfire.debug"
objcopy --strip-all --add-gnu-debuglink="$staging/watchfire.debug" "$binary" "$staging/watchfire"
chmod 755 "$staging/watchfire"
chmod 644 "$staging/watchfire.debug"
reported=$("$staging/watchfire" --version)
[ "$reported" = "watchfire $version" ] || {
  echo "cannot pack $binary: it reports \"$reported\" instead of version $version; build it again" >&2
  exit 1
}

say "writing the manual and the completions"
"$CARGO" run --quiet --locked -p watchfire-cli --features "$RELEASE_FEATURES" --example manual -- "$staging/manual"

say "the archive"
# Everything has its place below a prefix, such as /usr/local.
root=$staging/$name
install -D -m 755 "$staging/watchfire" "$root/bin/watchfire"
install -D -m 644 -t "$root/share/man/man1" "$staging"/manual/man/*.1
install -D -m 644 "$staging/manual/completions/watchfire.bash" "$root/share/bash-completion/completions/watchfire"
install -D -m 644 -t "$root/share/zsh/site-functions" "$staging/manual/completions/_watchfire"
install -D -m 644 -t "$root/share/fish/vendor_completions.d" "$staging/manual/completions/watchfire.fish"
install -D -m 644 -t "$root/share/doc/watchfire" README.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT config.example.toml \
  packaging/debian/watchfire.service packaging/debian/watchfire.socket packaging/debian/watchfire-mirror.service
pack() { # ARCHIVE FOLDER MEMBER...
  local archive=$1 folder=$2
  shift 2
  tar --create --directory="$folder" --format=gnu --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 \
    --numeric-owner --mode=u+w,go-w,a+rX "$@" | gzip --no-name --best >"$archive"
}
pack "dist/$name.tar.gz" "$staging" "$name"
pack "dist/$name-debug.tar.gz" "$staging" watchfire.debug

say "the Debian package"
cat >"$staging/changelog" <<END
watchfire ($version-1) unstable; urgency=medium

  * The changes are listed in CHANGELOG.md of the source.

 -- The Watchfire developers <watchfire@users.noreply.github.com>  $(date --utc --rfc-email --date="@$SOURCE_DATE_EPOCH")
END
tool cargo-deb "$CARGO_DEB"
PATH="$PWD/target/tools/bin:$PATH" "$CARGO" deb --quiet --no-build --no-strip -p watchfire-cli --output "$PWD/dist/"

say "the container image"
node packaging/image.mjs "$staging/watchfire" "$version" "dist/watchfire-$version-oci.tar"

say "the lists of components"
tool cargo-cyclonedx "$CARGO_CYCLONEDX"
PATH="$PWD/target/tools/bin:$PATH" node packaging/sbom.mjs "$host" "$version" dist

rm -rf "$staging"
(cd dist && sha256sum -- * >SHA256SUMS)
say "dist/"
ls -l dist
