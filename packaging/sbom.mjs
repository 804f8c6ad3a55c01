// Writes the lists of components (SBOM, CycloneDX): the crates of the program, and the npm packages of the
// web client that is embedded in it.
//
//     node packaging/sbom.mjs TARGET VERSION FOLDER
//
// cargo-cyclonedx must be in the path. The same inputs give the same bytes.

import { execFileSync } from 'node:child_process'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'

const [target, version, folder] = process.argv.slice(2)
if (!folder) throw new Error('cannot list components: usage: sbom.mjs TARGET VERSION FOLDER')
const timestamp = new Date(Number(process.env.SOURCE_DATE_EPOCH ?? 0) * 1000).toISOString()
const cargo = process.env.CARGO ?? 'cargo'

write(`watchfire-${version}.cdx.json`, crates())
write(
  `watchfire-${version}-web.cdx.json`,
  run('npm', ['sbom', '--sbom-format', 'cyclonedx', '--workspace', '@watchfire/app'], { cwd: 'web' }),
)

/** The crates of the program, without those that only build it. */
function crates() {
  const { packages } = JSON.parse(run(cargo, ['metadata', '--no-deps', '--locked', '--format-version', '1']))
  const name = 'components.tmp'
  // One file beside every manifest of the workspace.
  const files = packages.map(({ manifest_path }) => path.join(path.dirname(manifest_path), `${name}.json`))
  try {
    const features = process.env.RELEASE_FEATURES ? ['--features', process.env.RELEASE_FEATURES] : []
    const options = [
      '--format',
      'json',
      '--spec-version',
      '1.5',
      '--no-build-deps',
      '--target',
      target,
      ...features,
      '--override-filename',
      name,
    ]
    run(cargo, ['cyclonedx', '--quiet', '--manifest-path', 'crates/cli/Cargo.toml', ...options])
    return readFileSync(`crates/cli/${name}.json`, 'utf8')
  } finally {
    for (const file of files) rmSync(file, { force: true })
  }
}

/** Writes a list without what differs between two runs: a serial number, the time, and paths of this machine. */
function write(name, text) {
  const { serialNumber, ...list } = JSON.parse(text.replaceAll(`file://${process.cwd()}/`, 'file:///'))
  list.metadata.timestamp = timestamp
  writeFileSync(path.join(folder, name), `${JSON.stringify(list, null, 2)}\n`)
}

function run(program, args, options = {}) {
  return execFileSync(program, args, { encoding: 'utf8', maxBuffer: 1 << 28, stdio: ['ignore', 'pipe', 'inherit'], ...options })
}
