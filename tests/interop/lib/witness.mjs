// A WebSocket for the clients under test, which remembers how each one ended.

import assert from 'node:assert/strict'

import { WebSocket } from 'ws'

const closings = []

/** What browsers call WebSocket, from `ws`, with a memory of its close codes. */
export class WitnessedWebSocket extends WebSocket {
  #closedHere = false

  constructor(url, protocols) {
    super(url, protocols)
    this.on('error', () => {}) // Clients listen by `onerror`, and not always.
    this.on('close', (code) => closings.push({ url, code, byClient: this.#closedHere }))
  }

  close(code, reason) {
    // `ws` calls this too, to answer a close that came from the server.
    this.#closedHere ||= !this._closeFrameReceived
    super.close(code, reason)
  }
}

/** Clients from 1.6 to 1.8.15 do not come back after 1000, so it must never come from us. */
export function assertNeverClosedNormally() {
  assert.deepEqual(closings.filter(({ code, byClient }) => code === 1000 && !byClient), [])
}
