// A WebSocket for the clients under test that records how each connection closed.

import assert from 'node:assert/strict'

import { WebSocket } from 'ws'

const closings = []

/** The WebSocket of `ws`, with the browser's interface and a record of close codes. */
export class CloseRecordingWebSocket extends WebSocket {
  #closedHere = false

  constructor(url, protocols) {
    super(url, protocols)
    this.on('error', () => {}) // Clients do not always listen to `onerror`.
    this.on('close', (code) => closings.push({ url, code, byClient: this.#closedHere }))
  }

  close(code, reason) {
    // `ws` also calls this to reply to a close from the server.
    this.#closedHere ||= !Reflect.get(this, '_closeFrameReceived')
    super.close(code, reason)
  }
}

// Clients from 1.6 to 1.8.15 do not reconnect after code 1000, so the server must never send it, in any test of a file.
process.once('exit', () => {
  const normal = closings.filter(({ code, byClient }) => code === 1000 && !byClient)
  assert.deepEqual(normal, [], 'the server closed a connection with code 1000')
})
