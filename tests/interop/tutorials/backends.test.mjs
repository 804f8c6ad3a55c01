// The backends of examples/backends, each in its own runtime: a client joins with its token, and gets what it publishes.

import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'

import { collectEvents, connect, reply, newestWay } from '../lib/test-client.mjs'
import { newest } from '../lib/phoenix-clients.mjs'
import { newFolder } from '../lib/folders.mjs'
import { listeningPorts } from '../lib/listening-ports.mjs'
import { startWatchfire } from '../lib/server.mjs'
import { waitUntil } from '../lib/deadlines.mjs'

const EXAMPLES = fileURLToPath(new URL('../../../examples/backends/', import.meta.url))
const TOKEN_SECRET = 'a secret of the backends test, 32 bytes'
const API_KEY = 'the-API-key-of-the-backends-test'
const RULES = '[{ pattern = "cursors:*", publish = "clients", presence = true }]'

const folder = newFolder()

/** The command that starts each backend on a port. */
const backends = {
  node: () => ['node', 'node.mjs'],
  go: () => {
    // `go run` would leave the program running when it is stopped.
    const program = path.join(folder, 'backend')
    execFileSync('go', ['build', '-o', program, '.'], { cwd: path.join(EXAMPLES, 'go') })
    return [program]
  },
  php: (port) => ['php', '-S', `127.0.0.1:${port}`, 'php.php'],
  ruby: () => ['ruby', 'ruby.rb'],
}

describe('backends in other languages', () => {
  let server
  before(async () => {
    const settings = { 'auth.hs256_secret': TOKEN_SECRET, 'api.key': API_KEY, 'channels.rules': RULES, 'server.drain_period': '100ms' }
    server = await startWatchfire({ settings })
  })
  after(() => server.stop())

  for (const [name, commandOn] of Object.entries(backends)) {
    it(`${name} signs tokens and publishes`, async (t) => {
      const [port] = await listeningPorts(1)
      const [program, ...args] = commandOn(port)
      const env = { ...process.env, PORT: String(port), WATCHFIRE_URL: server.http(''), TOKEN_SECRET, API_KEY }
      const backend = spawn(program, args, { cwd: EXAMPLES, env, stdio: 'ignore' })
      t.after(() => backend.kill('SIGKILL'))
      const url = `http://127.0.0.1:${port}`
      const answer = await waitUntil(() => fetch(`${url}/token?name=ada`).catch(() => undefined), `${name} answers`)
      const { token } = await answer.json()
      const channel = connect(t, server, newestWay).socket.channel('cursors:board', { token })
      const cleared = collectEvents(channel, 'clear')
      const presence = new newest.Presence(channel)
      assert.equal((await reply(channel.join())).status, 'ok')
      await waitUntil(() => Object.keys(presence.state).includes('ada'), 'ada is present')
      assert.equal((await fetch(`${url}/clear`, { method: 'POST' })).status, 200)
      assert.deepEqual(await cleared.next(), {})
    })
  }
})
