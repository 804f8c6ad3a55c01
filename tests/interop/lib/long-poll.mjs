// A long-poll session without a client library.

import assert from 'node:assert/strict'

/** A session that a test drives itself. */
export class LongPollSession {
  token

  constructor(server, query = 'vsn=2.0.0') {
    this.server = server
    this.query = query
  }

  /** Opens a session. */
  static async open(server, query) {
    const session = new LongPollSession(server, query)
    const { status, token, messages } = await session.get()
    assert.deepEqual([status, messages], [410, []])
    session.token = token
    return session
  }

  url(token = this.token) {
    const suffix = token === undefined ? '' : `&token=${encodeURIComponent(token)}`
    return this.server.http(`/socket/longpoll?${this.query}${suffix}`)
  }

  /** @param {{ token?: string, headers?: Record<string, string>, signal?: AbortSignal }} options */
  async get({ token, headers = {}, signal } = {}) {
    const response = await fetch(this.url(token), { headers, signal })
    assert.equal(response.status, 200)
    return response.json()
  }

  /** POSTs Phoenix messages, one per line. */
  post(...messages) {
    return this.postBody(messages.map((message) => JSON.stringify(message)).join('\n'))
  }

  async postBody(body, headers = { 'Content-Type': 'application/x-ndjson' }) {
    const response = await fetch(this.url(), { method: 'POST', headers, body })
    assert.equal(response.status, 200)
    return response.json()
  }

  /** Polls until `count` messages have arrived. */
  async receive(count) {
    const received = []
    while (received.length < count) {
      const { status, messages } = await this.get()
      assert.ok(status === 200 || status === 204, `status ${status}`)
      received.push(...messages.map((message) => JSON.parse(message)))
    }
    return received
  }
}
