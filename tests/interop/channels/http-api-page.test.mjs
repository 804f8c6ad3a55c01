// The commands of docs/reference/http-api.md work, and give the answers that stand there.

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { describe, it } from 'node:test'

import { connect, reply, variantsWhere } from '../lib/test-client.mjs'
import { newest } from '../lib/phoenix-clients.mjs'
import { startChat } from '../lib/server.mjs'
import { API_KEY } from '../lib/http-api.mjs'

const PAGE = new URL('../../../docs/reference/http-api.md', import.meta.url)
/** Members whose values differ from run to run. */
const CHANGING = new Set(['phx_ref', 'position', 'version', 'processes', 'topics of info', 'uptime_seconds'])

const websocket = variantsWhere((variant) => variant.library === newest && !variant.isPoll && variant.serializer === 2)[0]

/** Each command of the page with the answer after it. */
function commands() {
  const blocks = [...readFileSync(PAGE, 'utf8').matchAll(/^```(sh|json|text)\n(.*?)^```$/gms)].map(([, kind, text]) => ({ kind, text }))
  assert.ok(blocks[0].text.startsWith('export KEY='), 'the page begins with the key')
  const pairs = []
  for (let at = 1; at < blocks.length; at += 2) {
    const [command, answer] = blocks.slice(at, at + 2)
    assert.equal(command.kind, 'sh', command.text)
    assert.notEqual(answer?.kind, 'sh', `an answer follows ${command.text}`)
    pairs.push({ command: command.text, answer })
  }
  return pairs
}

/** Runs a command in bash, with the address of the test's server. Returns its output. */
function bash(command, server) {
  const env = { ...process.env, KEY: API_KEY, API: server.http('/api') }
  return new Promise((resolve, reject) => {
    execFile('bash', ['-c', command], { env, timeout: 30_000 }, (error, stdout) => (error ? reject(error) : resolve(stdout)))
  })
}

/** A JSON text without the values that change. */
function settled(text) {
  const isInfo = text.includes('uptime_seconds')
  const settle = (key, value) => {
    const name = isInfo && key === 'topics' ? 'topics of info' : key
    return CHANGING.has(name) ? typeof value : value
  }
  return JSON.stringify(JSON.parse(text, settle))
}

describe('the page about the HTTP API', () => {
  it('shows the answers of a server', async (t) => {
    // One process: among several, a message is in the history a moment after the answer to its publish.
    const server = await startChat({ processes: 1, apiKey: API_KEY })
    t.after(() => server.kill())
    for (const [user, topics] of [
      ['ada', ['rooms:lobby', 'presence:lobby']],
      ['ben', ['rooms:lobby']],
    ]) {
      const client = connect(t, server, websocket, { params: { user } })
      for (const topic of topics) assert.equal((await reply(client.socket.channel(topic, { user }).join())).status, 'ok')
    }
    const all = commands()
    assert.ok(all.length > 10, `${all.length} commands`)
    for (const { command, answer } of all) {
      const output = await bash(command, server)
      if (answer.kind === 'text') assert.equal(output, answer.text, command)
      else assert.equal(settled(output), settled(answer.text), command)
    }
    await server.stop()
  })
})
