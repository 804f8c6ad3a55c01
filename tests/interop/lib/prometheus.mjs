// A real Prometheus with the files of deploy/prometheus, and the queries of the dashboards in deploy/grafana.

import assert from 'node:assert/strict'
import { cpSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

import { waitUntil } from './deadlines.mjs'
import { listeningPorts } from './listening-ports.mjs'
import { Server, start } from './server.mjs'

export const DEPLOY = fileURLToPath(new URL('../../../deploy', import.meta.url))
export const RULES = path.join(DEPLOY, 'prometheus')

/** Prometheus scrapes and evaluates once a second here. */
export const DATA_MS = 60_000

/** Starts Prometheus with the files of deploy/prometheus. It scrapes this address each second, and alerts do not wait. */
export async function startPrometheus(folder, target, mirrors = []) {
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
  const mirrorTargets = mirrors.map((address) => `"${address}"`).join(', ')
  rewrite('prometheus.yml', [/127\.0\.0\.1:4010/g, target], [/"127\.0\.0\.1:5000"/g, mirrorTargets], [/interval: 15s/g, 'interval: 1s'])
  rewrite('alerts.yml', [/for: \w+$/gm, 'for: 0s'])
  const [port] = await listeningPorts(1)
  const args = [`--config.file=${folder}/prometheus.yml`, `--storage.tsdb.path=${folder}/data`, `--web.listen-address=127.0.0.1:${port}`]
  const prometheus = await start('bash', ['-c', `echo "port ${port}"; exec prometheus "$@"`, 'prometheus', ...args], /^port (\d+)$/)
  assert(prometheus instanceof Server)
  const isReady = () =>
    fetch(prometheus.http('/-/ready')).then(
      (response) => response.ok,
      () => false,
    )
  await waitUntil(isReady, 'Prometheus is ready', DATA_MS)
  return prometheus
}

/** The result of an instant query. A query that Prometheus rejects is an error. */
export async function query(prometheus, expr) {
  const response = await fetch(prometheus.http(`/api/v1/query?${new URLSearchParams({ query: expr })}`))
  const { status, data, error } = await response.json()
  assert.equal(status, 'success', `${expr}: ${error}`)
  return data.result
}

/**
 * Waits until each query of a dashboard has data, for all instances. A panel of `idle` may be a ratio of counters that
 * stand still, which is not a number.
 */
export async function dashboardHasData(prometheus, name, idle = []) {
  const { panels } = JSON.parse(readFileSync(path.join(DEPLOY, 'grafana', name), 'utf8'))
  const queries = panels.flatMap(({ title, targets = [] }) => targets.map(({ expr }) => ({ title, expr })))
  assert(queries.length > 15)
  for (const { title, expr } of queries) {
    const known = expr.replaceAll('$instance', '.*').replaceAll('$__rate_interval', '1m')
    assert(!known.includes('$'), `${title} has a variable that this test does not know: ${known}`)
    const isData = ({ value: [, number] }) => number !== 'NaN' || idle.includes(title)
    const hasData = async () => (await query(prometheus, known)).some(isData)
    await waitUntil(hasData, `the panel "${title}" has data for ${known}`, DATA_MS)
  }
}
