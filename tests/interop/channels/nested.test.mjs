// `examples/nested`: an axum application that contains the channel server.

import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'

import { binary, start } from '../lib/server.mjs'
import { collectEvents, connect, variants } from '../lib/test-client.mjs'

describe('a server inside an axum application', () => {
  let app
  let channels
  before(async () => {
    app = await start(binary('nested'), ['0'], /^ws:\/\/127\.0\.0\.1:(\d+)\/realtime\/socket$/)
    channels = { endpoint: `ws://127.0.0.1:${app.port}/realtime/socket` }
  })
  after(() => app?.stop())

  for (const [number, variant] of variants.entries()) {
    it(`serves ${variant.name}`, async (t) => {
      const topic = `notes:${number}`
      const writer = await connect(t, channels, variant).join(topic)
      const notes = collectEvents(await connect(t, channels, variant).join(topic), 'note')
      const reply = new Promise((resolve) => writer.push('note', { text: 'two eggs' }).receive('ok', resolve))
      assert.deepEqual(await reply, { text: 'two eggs' })
      assert.deepEqual(await notes.next(), { text: 'two eggs' })

      const sent = await fetch(app.http(`/notes/${number}`), { method: 'POST', body: 'from the application' })
      assert.equal(sent.status, 204)
      assert.deepEqual(await notes.next(), { text: 'from the application' })
    })
  }

  it('keeps the routes of the application', async () => {
    assert.equal(await (await fetch(app.http('/'))).text(), 'an axum application')
    assert.equal((await fetch(app.http('/socket/websocket'))).status, 404)
  })
})
