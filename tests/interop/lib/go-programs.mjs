// Programs that are built once, with Go, from a folder with go.mod and go.sum.

import assert from 'node:assert/strict'
import { execFile, execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, renameSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const run = promisify(execFile)

const REPOSITORY = fileURLToPath(new URL('../../..', import.meta.url))
const BUILD_MS = 20 * 60_000

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
  #target

  /**
   * `folder` has go.mod, below tests/interop. `packages` are the programs: a name each, and the package in `module`. The
   * programs are built in a folder of target/, `target`.
   */
  constructor({ folder, module, packages, target }) {
    this.#folder = fileURLToPath(new URL(`../${folder}`, import.meta.url))
    this.#module = module
    this.#packages = packages
    this.#target = target
  }

  /** The reason why the programs cannot run here; false when they can. On the CI machine they must run. */
  get whyMissing() {
    const names = Object.keys(this.#packages)
    if (isGoInstalled || names.every((name) => existsSync(this.path(name)))) return false
    const reason = `${names.join(' and ')}: built with Go, and Go is not installed`
    assert(!process.env.CI, reason)
    return `NOT TESTED: ${reason}`
  }

  /** The path of a program, whether it exists yet or not. */
  path(name) {
    const file = path.join(this.#folder, 'go.mod')
    const line = readFileSync(file, 'utf8').split('\n').find((text) => text.replace(/^\s*(require )?/, '').startsWith(`${this.#module} v`))
    assert(line, `${file} does not require ${this.#module}`)
    const [, version] = / (v\S+)/.exec(line)
    return path.join(REPOSITORY, 'target', this.#target, version, name)
  }

  /** Builds the programs unless they exist; takes seconds to minutes. */
  async build() {
    for (const [name, inModule] of Object.entries(this.#packages)) {
      const finished = this.path(name)
      if (existsSync(finished)) continue
      mkdirSync(path.dirname(finished), { recursive: true })
      const unfinished = `${finished}.${process.pid}`
      const args = ['build', '-mod=readonly', '-trimpath', '-buildvcs=false', '-o', unfinished, `${this.#module}/${inModule}`]
      await run('go', args, { cwd: this.#folder, timeout: BUILD_MS, killSignal: 'SIGKILL' })
      renameSync(unfinished, finished)
    }
  }
}
