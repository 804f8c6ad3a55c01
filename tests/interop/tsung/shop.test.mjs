// Debian's Tsung and `watchfire load` run the same file against a server that notes every request. Both must ask for the
// same, in the same order, with the same values.

import assert from 'node:assert/strict'
import { readFileSync, readdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, it } from 'node:test'

import { newFolder } from '../lib/folders.mjs'
import { run } from '../lib/program.mjs'
import { binary } from '../lib/server.mjs'
import { startShop } from './shop.mjs'

const RUN_MS = 90_000
const USERS = 6
const FILES = ['shop.xml', 'visit.xml', 'people.csv', 'body.txt']

const folder = newFolder()
let shop, file
before(async () => {
  shop = await startShop()
  for (const name of FILES) {
    const text = readFileSync(new URL(name, import.meta.url), 'utf8')
    const [port, other] = shop.ports.map(String)
    writeFileSync(path.join(folder, name), text.replaceAll('PORT', port).replaceAll('OTHER', other).replaceAll('FOLDER', folder))
  }
  file = path.join(folder, 'shop.xml')
})
after(() => shop?.stop())

/** The requests of the users since the last call, and the users' names, which depend on the order of their arrival. */
function visited() {
  const names = []
  const visits = [...shop.visits].map(([group, { notes }]) => {
    const name = /name=([a-z]+)/.exec(notes.join())?.[1]
    if (name) names.push(name)
    return [group.replace(/ .*/, ''), notes.map((note) => (name ? note.replaceAll(name, 'NAME') : note))]
  })
  shop.visits.clear()
  return { visits: visits.sort(([a], [b]) => a.localeCompare(b)), names: names.sort() }
}

/** How often something was counted or measured, in Tsung's log. */
function counter(log, name) {
  const lines = log.split('\n').filter((line) => line.startsWith(`stats: ${name} `))
  return lines.reduce((sum, line) => sum + Number(line.split(' ')[2]), 0)
}

it('the same file asks for the same in both', async () => {
  const logs = path.join(folder, 'log')
  const options = { timeout: RUN_MS, cwd: folder, env: { ...process.env, HOME: folder } }
  // Each of two runs at the same time has an Erlang node of its own.
  const id = String(process.pid)
  await run('tsung', ['-n', '-w', '0', '-i', id, '-l', logs, '-f', file, 'start'], options)
  const tsung = visited()
  const log = readFileSync(path.join(logs, readdirSync(logs)[0], 'tsung.log'), 'utf8')
  assert.equal(counter(log, 'finish_users_count'), USERS, log)
  assert.doesNotMatch(log, /^stats: error_(?!if_undef)/m)

  const json = path.join(folder, 'out.json')
  await run(binary('watchfire'), ['load', file, '--json', json], { timeout: RUN_MS })
  const { counts, counters, errors, steps } = JSON.parse(readFileSync(json, 'utf8'))
  const ours = visited()

  assert.deepEqual(ours.visits, tsung.visits)
  assert.deepEqual(ours.names, tsung.names)
  assert.deepEqual(ours.names, ['ada', 'ada', 'ada', 'grace', 'grace', 'grace'])
  assert.deepEqual({ errors, finished: counts.finished }, { errors: [], finished: USERS })
  for (const name of ['match', 'nomatch', 'match_loop', 'match_restart', 'max_repeat', 'error_if_undef']) {
    assert.equal(counters[name], counter(log, name), name)
  }
  const login = steps.find(({ name }) => name === 'tr_login')
  assert.equal(login.since_due.count, counter(log, 'tr_login'))
})
