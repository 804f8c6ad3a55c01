// Commands of the watchfire program, which report events as JSON.

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'

import { binary } from './server.mjs'
import { Inbox, withTimeout } from './deadlines.mjs'

const END_MS = 60_000

/** A command that runs until the test ends. */
export class Command {
  events = new Inbox()
  stderr = ''
  #child
  #exited

  /** Runs `watchfire <command> --json <args>` in a folder of its own. With `stdin` as a pipe, `write` is its input. */
  constructor(t, folder, command, args, environment = {}, /** @type {'ignore' | 'pipe'} */ stdin = 'ignore') {
    const env = { ...process.env, ...environment }
    this.#child = spawn(binary('watchfire'), [command, '--json', ...args], { cwd: folder, stdio: [stdin, 'pipe', 'pipe'], env })
    this.#child.stderr.setEncoding('utf8').on('data', (text) => (this.stderr += text))
    createInterface({ input: this.#child.stdout }).on('line', (line) => this.events.put(JSON.parse(line)))
    this.#exited = new Promise((resolve) => this.#child.once('close', resolve))
    t.after(() => this.#child.exitCode === null && this.#child.kill('SIGKILL'))
  }

  write(text) {
    this.#child.stdin.write(text)
  }

  get pid() {
    return this.#child.pid
  }

  /** The next event of a kind. */
  async event(kind, ms = END_MS) {
    const ended = this.#exited.then((code) =>
      Promise.reject(new Error(`the command ended with ${code} before the event ${kind}: ${this.stderr}`)),
    )
    ended.catch(() => {})
    return Promise.race([this.events.next(({ event }) => event === kind, kind, ms), ended])
  }

  /** The exit code. */
  ended(ms = END_MS) {
    return withTimeout(this.#exited, 'the command ends', ms)
  }

  /** Presses Ctrl-C, and asserts an exit without a panic. */
  async interrupt() {
    this.#child.kill('SIGINT')
    assert.equal(await this.ended(), 0, this.stderr)
    assert.doesNotMatch(this.stderr, /panicked/)
  }
}
