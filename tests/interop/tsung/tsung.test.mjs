// Debian's Tsung runs its own WebSocket session against our server, and `watchfire load` runs the
// same file.

import assert from 'node:assert/strict'
import { readFileSync, readdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, it } from 'node:test'

import { newFolder } from '../lib/folders.mjs'
import { run } from '../lib/program.mjs'
import { binary, startWatchfire } from '../lib/server.mjs'

const RUN_MS = 60_000

const folder = newFolder()
let server, file
before(async () => {
  // Tsung sends an origin without a scheme, which no setting allows by default.
  server = await startWatchfire({ settings: { 'socket.check_origin': 'any', 'channels.open_rooms': true } })
  file = path.join(folder, 'lobby.xml')
  const scenario = readFileSync(new URL('lobby.xml', import.meta.url), 'utf8')
  writeFileSync(file, scenario.replace('PORT', server.port))
})
after(() => server?.stop())

/** The last total of a counter in Tsung's log. */
function counter(log, name) {
  const lines = log.split('\n').filter((line) => line.startsWith(`stats: ${name} `))
  return lines.length > 0 ? Number(lines.at(-1).split(' ').at(-1)) : 0
}

const opened = () => server.metric('watchfire_sockets_websockets_opened_total')

it('Tsung connects, joins, receives its replies and closes without an error', async () => {
  const before = await opened()
  const logs = path.join(folder, 'log')
  // Tsung writes to its home as well as to its log.
  const options = { timeout: RUN_MS, env: { ...process.env, HOME: folder } }
  // Each of two runs at the same time has an Erlang node of its own.
  const id = String(process.pid)
  await run('tsung', ['-n', '-w', '0', '-i', id, '-l', logs, '-f', file, 'start'], options)

  const log = readFileSync(path.join(logs, readdirSync(logs)[0], 'tsung.log'), 'utf8')
  assert.equal(counter(log, 'users_count'), 40, log)
  assert.equal(counter(log, 'finish_users_count'), 40, log)
  assert.equal(counter(log, 'websocket_succ'), 40, log)
  assert.doesNotMatch(log, /^stats: (error|websocket_fail)/m)
  assert.equal((await opened()) - before, 40)
})

it('watchfire load runs the same file with the same result', async () => {
  const before = await opened()
  const json = path.join(folder, 'out.json')
  await run(binary('watchfire'), ['load', file, '--json', json], { timeout: RUN_MS })

  const { counts, errors, steps } = JSON.parse(readFileSync(json, 'utf8'))
  assert.deepEqual(errors, [])
  const done = Object.fromEntries(steps.map(({ name, since_due }) => [name, since_due.count]))
  assert.deepEqual(done, { connect: 40, message: 160, close: 40 })
  assert.equal(counts.finished, 40)
  assert.equal((await opened()) - before, 40)
})
