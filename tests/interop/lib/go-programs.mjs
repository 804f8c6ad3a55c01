// Programs that are built once, with Go, from a folder with go.mod and go.sum. They are kept in the user's cache folder, so that
// another clone of the repository, or one after `make clean`, does not build them again.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, symlinkSync } from 'node:fs'
import { homedir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

import { run } from './program.mjs'

const BUILD_MS = 20 * 60_000

/** The folder of all programs; each version of a program has a folder of its own in it. */
const GO_PROGRAMS = path.join(process.env.XDG_CACHE_HOME || path.join(homedir(), '.cache'), 'watchfire')

const isGoInstalled = (() => {
  try {
    execFileSync('go', ['version'])
    return true
  } catch {
    return false
  }
})()

/** The programs of one Go module, in a version that go.mod fixes. */
export class GoPrograms {
  #folder
  #module
  #packages
  #inputs
  #keptIn

  /**
   * `folder` has go.mod, below tests/interop. `packages` are the programs: a name each, and the package in `module`, or in `folder`
   * if it begins with a dot. `keptIn` is their folder in the cache. `inputs` are further files of `folder` that decide what is built.
   */
  constructor({ folder, module, packages, keptIn, inputs = [] }) {
    this.#folder = fileURLToPath(new URL(`../${folder}`, import.meta.url))
    this.#module = module
    this.#packages = packages
    this.#keptIn = keptIn
    this.#inputs = ['go.mod', 'go.sum', ...inputs]
  }

  /** The reason why the programs cannot run here; false when they can. On the CI machine they must run. */
  get whyMissing() {
    const names = Object.keys(this.#packages)
    if (isGoInstalled || names.every((name) => existsSync(this.path(name)))) return false
    const reason = `${names.join(' and ')}: built with Go, and Go is not installed`
    assert(!process.env.CI, reason)
    return `NOT TESTED: ${reason}`
  }

  /** The version in go.mod. */
  get version() {
    const file = path.join(this.#folder, 'go.mod')
    const line = readFileSync(file, 'utf8')
      .split('\n')
      .find((text) => text.replace(/^\s*(require )?/, '').startsWith(`${this.#module} v`))
    assert(line, `${file} does not require ${this.#module}`)
    return / (v\S+)/.exec(line)[1]
  }

  /** The path of a program, whether it exists yet or not. */
  path(name) {
    return path.join(GO_PROGRAMS, this.#keptIn, `${this.version}-${this.#inputsHash}`, name)
  }

  /** Differs when a dependency, or the kind of machine, differs. */
  get #inputsHash() {
    const hash = createHash('sha256').update(`${process.platform} ${process.arch}`)
    for (const input of this.#inputs) hash.update(readFileSync(path.join(this.#folder, input)))
    return hash.digest('hex').slice(0, 8)
  }

  /** Builds the programs unless they exist; takes seconds to minutes. */
  async build() {
    for (const [name, inModule] of Object.entries(this.#packages)) {
      const finished = this.path(name)
      if (existsSync(finished)) continue
      mkdirSync(path.dirname(finished), { recursive: true })
      const unfinished = `${finished}.${process.pid}`
      const source = inModule.startsWith('.') ? inModule : `${this.#module}/${inModule}`
      const args = ['build', '-mod=readonly', '-trimpath', '-buildvcs=false', '-o', unfinished, source]
      await run('go', args, { cwd: this.#folder, timeout: BUILD_MS, killSignal: 'SIGKILL' })
      renameSync(unfinished, finished)
    }
  }

  /** Builds the programs, and links to them from the folder of this version in `folder`, where the benchmarks expect them. */
  async link(folder) {
    await this.build()
    const at = path.join(folder, this.version)
    mkdirSync(at, { recursive: true })
    for (const name of Object.keys(this.#packages)) {
      const link = path.join(at, name)
      rmSync(link, { force: true })
      symlinkSync(this.path(name), link)
    }
  }
}
