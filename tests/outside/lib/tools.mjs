// The programs that judge, each in a fixed version, in a cache folder that all clones share.

import { execFile, execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const execute = promisify(execFile)

export const REPOSITORY = fileURLToPath(new URL('../../..', import.meta.url))
/** The modules that the Python programs share. */
export const PYTHON_LIBRARY = path.join(REPOSITORY, 'tests/outside/lib')
/** A file that exists once the packages of the tests with browsers are installed. */
export const INTEROP_MODULES = path.join(REPOSITORY, 'tests/interop/node_modules/.package-lock.json')
const CACHE = path.join(process.env.XDG_CACHE_HOME ?? path.join(homedir(), '.cache'), 'watchfire', 'outside')
const INSTALL_MS = 10 * 60_000
const OUTPUT_BYTES = 256 << 20

/** The reason why a suite cannot run on this machine. It is no failure, and stands on the page. */
export class Skip extends Error {}

/**
 * Runs a program to its end; returns its code and its output. The program has `ms` milliseconds, and is then killed,
 * which is an error.
 */
export async function run(program, args, /** @type {Record<string, any>} */ { ms = 60_000, ...options } = {}) {
  try {
    const { stdout, stderr } = await execute(program, args, { timeout: ms, killSignal: 'SIGKILL', maxBuffer: OUTPUT_BYTES, ...options })
    return { code: 0, stdout, stderr }
  } catch (error) {
    if (typeof error.code !== 'number')
      throw new Error(`cannot run ${program}: ${error.killed ? `it did not end within ${ms} ms` : error.message}`)
    return { code: error.code, stdout: error.stdout, stderr: error.stderr }
  }
}

/** Runs a program that must succeed; returns its output. */
export async function runOrFail(program, args, options) {
  const { code, stdout, stderr } = await run(program, args, options)
  if (code !== 0) throw new Error(`cannot run ${program} ${args.join(' ')}: it ended with ${code}\n${stdout}${stderr}`)
  return stdout
}

/** The path of an installed program, or undefined. Debian has some programs outside a user's PATH. */
export function installed(name) {
  const folders = [...(process.env.PATH ?? '').split(':'), '/usr/sbin', '/sbin']
  return folders.map((folder) => path.join(folder, name)).find((file) => existsSync(file))
}

/** The path of a program of a Debian package; skips the suite when it is not installed. */
export function needs(name, debianPackage = name) {
  const found = installed(name)
  if (!found) throw new Skip(`${name} is not installed; on Debian, \`apt-get install ${debianPackage}\` installs it`)
  return found
}

/** The folder with the programs of Python packages, installed once for each list of packages. */
export async function python(packages, { version = '3' } = {}) {
  const interpreter = version === '2' ? python2() : installed('python3')
  if (!interpreter) throw new Skip(`Python ${version} is not installed`)
  const key = createHash('sha256')
    .update(JSON.stringify([interpreter, packages]))
    .digest('hex')
    .slice(0, 12)
  const folder = path.join(CACHE, `python-${key}`)
  const programs = path.join(folder, 'bin')
  const finished = path.join(folder, 'installed')
  if (existsSync(finished)) return programs
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(path.dirname(folder), { recursive: true })
  await (version === '2' ? createPython2(interpreter, folder) : runOrFail(interpreter, ['-m', 'venv', folder], { ms: INSTALL_MS }))
  await runOrFail(path.join(programs, 'pip'), ['install', '--quiet', ...packages], { ms: INSTALL_MS })
  writeFileSync(finished, `${packages.join('\n')}\n`)
  return programs
}

/** Python 2.7, which Debian does not have: from the variable `PYTHON2`, or one that pyenv built. */
function python2() {
  if (process.env.PYTHON2) return process.env.PYTHON2
  const versions = path.join(process.env.PYENV_ROOT ?? path.join(homedir(), '.pyenv'), 'versions')
  const version = existsSync(versions) && readdirSync(versions).find((name) => name.startsWith('2.7'))
  return version ? path.join(versions, version, 'bin', 'python') : installed('python2.7')
}

/** The module `venv` does not exist in Python 2: a package makes the folder. */
async function createPython2(interpreter, folder) {
  const maker = `${folder}-maker`
  await runOrFail(interpreter, ['-m', 'pip', 'install', '--quiet', '--target', maker, 'virtualenv==20.15.1'], { ms: INSTALL_MS })
  await runOrFail(interpreter, ['-m', 'virtualenv', '--quiet', folder], { ms: INSTALL_MS, env: { ...process.env, PYTHONPATH: maker } })
  rmSync(maker, { recursive: true, force: true })
}

/** The path of a Go program, which is built once for each version. */
export async function goProgram(module, version, name) {
  const folder = path.join(CACHE, `${name}-${version}`)
  const finished = path.join(folder, name)
  if (existsSync(finished)) return finished
  if (!installed('go')) throw new Skip(`${name} is built with Go, and Go is not installed`)
  const unfinished = `${folder}.${process.pid}`
  mkdirSync(unfinished, { recursive: true })
  await runOrFail('go', ['install', `${module}@${version}`], {
    ms: INSTALL_MS,
    cwd: tmpdir(),
    env: { ...process.env, GOBIN: unfinished, GOFLAGS: '-mod=mod' },
  })
  rmSync(folder, { recursive: true, force: true })
  renameSync(unfinished, folder)
  return finished
}

/** The path of a Rust program in a package of its own, outside the workspace. Cargo builds what has changed. */
export async function cargoProgram(folder, name, { flags = '' } = {}) {
  if (!installed('cargo')) throw new Skip(`${name} is built with Cargo, and Cargo is not installed`)
  const target = path.join(CACHE, `cargo-${name}`)
  const env = { ...process.env, RUSTFLAGS: flags, CARGO_PROFILE_DEV_DEBUG: '0' }
  await runOrFail('cargo', ['build', '--quiet', '--locked', '--target-dir', target], { ms: INSTALL_MS, cwd: folder, env })
  return path.join(target, 'debug', name)
}

/** The version of an installed Debian package. */
export function debianVersion(name) {
  return execFileSync('dpkg-query', ['-W', '-f', '${Version}', name], { encoding: 'utf8' })
}
