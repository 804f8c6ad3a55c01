// Programs of others: to their end, or beside the tests until they are stopped.

import { execFile, spawn } from 'node:child_process'
import path from 'node:path'
import { promisify } from 'node:util'

import { SOON_MS, waitUntil, withTimeout } from './deadlines.mjs'

/** Runs a program to its end; returns its `stdout` and `stderr`. A program that fails is an error. */
export const run = promisify(execFile)

/** A program that runs until it is stopped. */
export class Program {
  /** Its standard output and its standard error, as one text. */
  output = ''
  #child
  #ended
  /** Why it ended: its exit code, its signal, or the error because of which it did not start. */
  #cause

  constructor(program, args, options = {}) {
    this.#child = spawn(program, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'] })
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      stream.setEncoding('utf8').on('data', (text) => (this.output += text))
    }
    this.#ended = new Promise((resolve) => {
      const end = (cause) => {
        this.#cause ??= cause
        resolve(null)
      }
      this.#child.once('close', (code, signal) => end(signal ?? code))
      this.#child.once('error', (error) => end(`${error.message}; \`make tools\` installs it`))
    })
  }

  get pid() {
    return this.#child.pid
  }

  get name() {
    return path.basename(this.#child.spawnfile)
  }

  /** Waits until the result of `condition` is truthy, and returns it. Fails if the program ends before. */
  until(condition, what, ms = SOON_MS) {
    const check = () => {
      if (this.#cause !== undefined) throw new Error(`${this.name} ended: ${this.#cause}\n${this.output}`)
      return condition()
    }
    return waitUntil(check, what, ms)
  }

  /** Sends it a signal that does not end it. */
  signal(signal) {
    this.#child.kill(signal)
  }

  /** Ends it, and waits for its end. */
  async stop(signal = 'SIGTERM', ms = SOON_MS) {
    this.#child.kill(signal)
    try {
      await withTimeout(this.#ended, `${this.name} ends`, ms)
    } finally {
      this.#child.kill('SIGKILL')
    }
  }
}
