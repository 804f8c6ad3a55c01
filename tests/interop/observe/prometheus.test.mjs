// A real Prometheus scrapes a real server: the rules of deploy/prometheus and the dashboard of deploy/grafana have data,
// and alerts fire.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'

import { waitUntil } from '../lib/deadlines.mjs'
import { listeningPorts } from '../lib/listening-ports.mjs'
import { join } from '../lib/room-sockets.mjs'
import { ROOMS, Server, start, startWatchfire } from '../lib/server.mjs'

const DEPLOY = fileURLToPath(new URL('../../../deploy', import.meta.url))
const RULES = path.join(DEPLOY, 'prometheus')

/** Prometheus scrapes and evaluates once a second here. */
const DATA_MS = 60_000

const SOCKETS_MAX = 60

const promtool = (...args) => execFileSync('promtool', args, { cwd: RULES, encoding: 'utf8' })

describe('the files for Prometheus', () => {
  it('are valid', () => {
    promtool('check', 'config', 'prometheus.yml')
    promtool('check', 'rules', 'recording.yml', 'alerts.yml')
  })

  it('have alerts that fire when they must, and not before', () => {
    assert.match(promtool('test', 'rules', 'tests.yml'), /SUCCESS/)
  })

  it('test each alert', () => {
    const tests = readFileSync(path.join(RULES, 'tests.yml'), 'utf8')
    const untested = alertNames().filter((name) => !tests.includes(`name: ${name} fires`))
    assert.deepEqual(untested, [])
  })
})

describe('a server that Prometheus scrapes', () => {
  let server, prometheus, folder, traffic
  const sockets = []

  before(async () => {
    // The limit is low, so that a few sockets reach it.
    server = await startWatchfire({ processes: 1, settings: { ...ROOMS, 'limits.sockets_max': SOCKETS_MAX, 'server.shards': 1 } })
    folder = mkdtempSync(path.join(tmpdir(), 'watchfire-prometheus-'))
    prometheus = await startPrometheus(folder, new URL(await server.admin('/metrics')).host)
    for (let n = 0; n < SOCKETS_MAX - 8; n++) sockets.push(await join(server, 'rooms:lobby'))
    traffic = setInterval(() => {
      for (const socket of sockets.slice(0, 5)) {
        socket.send(JSON.stringify(['1', '2', 'rooms:lobby', 'new_msg', { body: 'hello' }]))
        socket.send(JSON.stringify(['9', '3', 'unknown', 'phx_join', {}]))
      }
      fetch(server.http('/healthz')).catch(() => {})
    }, 200)
  })

  after(async () => {
    clearInterval(traffic)
    for (const socket of sockets) socket.terminate()
    await prometheus?.stop()
    await server?.stop()
    if (folder) rmSync(folder, { recursive: true })
  })

  it('gives data to each recording rule', async () => {
    const names = [...readFileSync(path.join(RULES, 'recording.yml'), 'utf8').matchAll(/- record: (\S+)/g)].map(([, name]) => name)
    assert(names.length > 10)
    for (const name of names) await waitUntil(async () => (await query(prometheus, name)).length > 0, `${name} has data`, DATA_MS)
    const [clients] = await query(prometheus, 'instance:watchfire_clients:sum')
    assert.equal(Number(clients.value[1]), sockets.length)
  })

  it('gives data to each panel of the dashboard', async () => {
    const { panels } = JSON.parse(readFileSync(path.join(DEPLOY, 'grafana/server.json'), 'utf8'))
    const queries = panels.flatMap(({ title, targets = [] }) => targets.map(({ expr }) => ({ title, expr })))
    assert(queries.length > 20)
    for (const { title, expr } of queries) {
      const known = expr.replaceAll('$instance', '.*').replaceAll('$__rate_interval', '1m')
      assert(!known.includes('$'), `${title} has a variable that this test does not know: ${known}`)
      await waitUntil(async () => (await query(prometheus, known)).length > 0, `the panel "${title}" has data for ${known}`, DATA_MS)
    }
  })

  it('fires the alerts that sockets near the limit and refusals cause, and no other', async () => {
    const expected = ['WatchfireRefusals', 'WatchfireSocketLimitNear']
    const firing = async () => {
      const alerts = await query(prometheus, 'ALERTS{alertstate="firing"}')
      return [...new Set(alerts.map(({ metric }) => metric.alertname))].sort()
    }
    await waitUntil(async () => (await firing()).length >= expected.length, 'the alerts fire', DATA_MS)
    assert.deepEqual(await firing(), expected)
  })

  it('fires an alert when it is gone', async () => {
    clearInterval(traffic)
    await server.stop()
    const down = 'ALERTS{alertname="WatchfireDown", alertstate="firing"}'
    await waitUntil(async () => (await query(prometheus, down)).length === 1, 'the alert fires', DATA_MS)
  })
})

function alertNames() {
  return [...readFileSync(path.join(RULES, 'alerts.yml'), 'utf8').matchAll(/- alert: (\S+)/g)].map(([, name]) => name)
}

/** Starts Prometheus with the files of deploy/prometheus. It scrapes this address each second, and alerts do not wait. */
async function startPrometheus(folder, target) {
  cpSync(RULES, folder, { recursive: true })
  const rewrite = (name, ...pairs) => {
    const file = path.join(folder, name)
    let text = readFileSync(file, 'utf8')
    for (const [pattern, replacement] of pairs) {
      assert.match(text, pattern, `${name} has nothing to replace`)
      text = text.replaceAll(pattern, replacement)
    }
    writeFileSync(file, text)
  }
  rewrite('prometheus.yml', [/127\.0\.0\.1:4010/g, target], [/interval: 15s/g, 'interval: 1s'])
  rewrite('alerts.yml', [/for: \w+$/gm, 'for: 0s'])
  const [port] = await listeningPorts(1)
  const args = [`--config.file=${folder}/prometheus.yml`, `--storage.tsdb.path=${folder}/data`, `--web.listen-address=127.0.0.1:${port}`]
  const prometheus = await start('bash', ['-c', `echo "port ${port}"; exec prometheus "$@"`, 'prometheus', ...args], /^port (\d+)$/)
  assert(prometheus instanceof Server)
  const isReady = () => fetch(prometheus.http('/-/ready')).then((response) => response.ok, () => false)
  await waitUntil(isReady, 'Prometheus is ready', DATA_MS)
  return prometheus
}

/** The result of an instant query. A query that Prometheus rejects is an error. */
async function query(prometheus, expr) {
  const response = await fetch(prometheus.http(`/api/v1/query?${new URLSearchParams({ query: expr })}`))
  const { status, data, error } = await response.json()
  assert.equal(status, 'success', `${expr}: ${error}`)
  return data.result
}
