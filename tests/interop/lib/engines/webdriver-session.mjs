// A session of classic WebDriver (W3C). A session has one current window and frame, so its commands run one after another.

import { SOON_MS } from '../deadlines.mjs'
import { accepts } from '../listen.mjs'

/** The key of an element in JSON (W3C WebDriver, 12.2). */
const ELEMENT = 'element-6066-11e4-a52e-4f735466cecf'
/** Longest duration of a script and of the load of a page. */
const COMMAND_MS = 60_000

/** An error that the driver reports, such as `stale element reference`. */
export class WebDriverError extends Error {
  constructor({ error, message }, command) {
    super(`cannot ${command}: ${error}${message ? `: ${message}` : ''}`)
    this.code = error
  }
}

export class WebDriverSession {
  version = ''
  #address
  #last = Promise.resolve()

  constructor(address) {
    this.#address = address
  }

  /** Opens a session with the driver that listens, or soon will, at that address. */
  static async open(address, driver, capabilities) {
    const port = Number(new URL(address).port)
    await driver.until(() => accepts(port), 'the driver listens', SOON_MS)
    const session = new WebDriverSession(address)
    const opened = await session.#send('POST', '/session', { capabilities: { alwaysMatch: capabilities } })
    session.#address = `${address}/session/${opened.sessionId}`
    session.version = opened.capabilities.browserVersion
    await session.#send('POST', '/timeouts', { script: COMMAND_MS, pageLoad: COMMAND_MS })
    return session
  }

  /** Runs commands for one tab: no other command runs between them. */
  exclusively(commands) {
    const run = this.#last.then(() => commands(this))
    this.#last = run.catch(() => {})
    return run
  }

  get(path) {
    return this.#send('GET', path)
  }

  post(path, body = {}) {
    return this.#send('POST', path, body)
  }

  delete(path) {
    return this.#send('DELETE', path)
  }

  /** Runs the body of a function in the page; it may return a promise. Elements are passed as references. */
  async execute(script, ...args) {
    return this.post('/execute/sync', { script, args })
  }

  async #send(method, path, body) {
    const response = await fetch(this.#address + path, {
      method,
      headers: { 'content-type': 'application/json; charset=utf-8' },
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: AbortSignal.timeout(2 * COMMAND_MS),
    })
    const { value } = await response.json()
    if (!response.ok || value?.error) throw new WebDriverError(value ?? { error: response.status }, `${method} ${path}`)
    return value
  }
}

/** The path of the commands for an element. */
export const pathOf = (element) => `/element/${element[ELEMENT]}`
