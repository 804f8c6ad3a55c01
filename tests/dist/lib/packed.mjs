// The files that `make dist` wrote, and short ways to run programs on them.

import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after } from 'node:test'
import { fileURLToPath } from 'node:url'

export const REPOSITORY = fileURLToPath(new URL('../../..', import.meta.url))
export const DIST = path.join(REPOSITORY, 'dist')
export const version = /^version = "(.*)"$/m.exec(readFileSync(path.join(REPOSITORY, 'Cargo.toml'), 'utf8'))[1]
const name = `watchfire-${version}-${process.arch === 'x64' ? 'x86_64' : 'aarch64'}-unknown-linux-gnu`

/** The path of a packed file, which must exist unless a test is told to use another program. */
function packed(file) {
  const found = path.join(DIST, file)
  assert.ok(existsSync(found) || process.env.WATCHFIRE, `${found} is missing; run \`make dist\` first`)
  return found
}

export const archive = packed(`${name}.tar.gz`)
export const debugArchive = packed(`${name}-debug.tar.gz`)
export const debianPackage = packed(`watchfire_${version}-1_${process.arch === 'x64' ? 'amd64' : 'arm64'}.deb`)
export const image = packed(`watchfire-${version}-oci.tar`)
export const crates = packed(`watchfire-${version}.cdx.json`)
export const webPackages = packed(`watchfire-${version}-web.cdx.json`)

/** Registers what is to end after all tests of a file; the last one ends first. */
export function endingAfterAll() {
  const endings = []
  after(async () => {
    for (const end of endings.reverse()) await end()
  })
  return (end) => endings.push(end)
}

/** A folder that is removed at the end; `atEnd` registers that. */
export function temporaryFolder(atEnd) {
  const folder = mkdtempSync(path.join(tmpdir(), 'dist-'))
  atEnd(() => run('rm', ['--recursive', '--force', '--one-file-system', folder]))
  return folder
}

/** Runs a program, and returns its standard output; a failure shows what it printed. */
export function run(program, args, options = {}) {
  const { status, stdout, stderr, error } = spawnSync(program, args, { encoding: 'utf8', maxBuffer: 1 << 26, ...options })
  if (error) throw error
  assert.equal(status, 0, `${program} ${args.join(' ')} ended with ${status}:\n${stdout}${stderr}`)
  return stdout
}

/** Unpacks the archive; returns the folder that belongs below a prefix. */
export function unpackArchive(atEnd) {
  const folder = temporaryFolder(atEnd)
  execFileSync('tar', ['--extract', '--gzip', `--file=${archive}`, `--directory=${folder}`])
  return path.join(folder, name)
}

/** The commands in the code block of the README below the paragraph that begins with this text. */
export function commandsOfReadme(paragraph) {
  const readme = readFileSync(path.join(REPOSITORY, 'README.md'), 'utf8')
  const block = new RegExp(`^${paragraph}[^\`]*?\\n\`\`\`\\n(.*?)^\`\`\``, 'ms').exec(readme)
  assert.ok(block, `README.md has a code block after "${paragraph}"`)
  return block[1].trim().split('\n')
}
