// A real Prometheus scrapes a real server and real mirrors: the rules of deploy/prometheus and the dashboards of
// deploy/grafana have data, and alerts fire.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'

import { waitUntil } from '../lib/deadlines.mjs'
import { Fleet, pullImage } from '../lib/fleet.mjs'
import { newFolder } from '../lib/folders.mjs'
import { DATA_MS, RULES, dashboardHasData, query, startPrometheus } from '../lib/prometheus.mjs'
import { Registry, makeImage, push } from '../lib/registry.mjs'
import { join } from '../lib/room-sockets.mjs'
import { ROOMS, startWatchfire } from '../lib/server.mjs'

const SOCKETS_MAX = 60

describe('a server that Prometheus scrapes', () => {
  const folder = newFolder()
  let server, prometheus, traffic
  const sockets = []

  before(async () => {
    // The limit is low, so that a few sockets reach it.
    server = await startWatchfire({ processes: 1, settings: { ...ROOMS, 'limits.sockets_max': SOCKETS_MAX, 'server.shards': 1 } })
    prometheus = await startPrometheus(folder, new URL(await server.admin('/metrics')).host)
    for (let n = 0; n < SOCKETS_MAX - 8; n++) sockets.push(await join(server, 'rooms:lobby'))
    traffic = setInterval(() => {
      for (const socket of sockets.slice(0, 5)) {
        socket.send(JSON.stringify(['1', '2', 'rooms:lobby', 'new_msg', { body: 'hello' }]))
        socket.send(JSON.stringify(['9', '3', 'unknown', 'phx_join', {}]))
      }
      sockets[6]?.send(JSON.stringify(['2', '4', 'rooms:lobby', 'phx_join', {}]))
      fetch(server.http('/healthz')).catch(() => {})
    }, 200)
  })

  after(async () => {
    clearInterval(traffic)
    for (const socket of sockets) socket.terminate()
    await prometheus?.stop()
    await server?.stop()
  })

  it('gives data to each recording rule', async () => {
    const names = [...readFileSync(path.join(RULES, 'recording.yml'), 'utf8').matchAll(/- record: (\S+)/g)].map(([, name]) => name)
    assert(names.length > 10)
    for (const name of names) await waitUntil(async () => (await query(prometheus, name)).length > 0, `${name} has data`, DATA_MS)
    const [clients] = await query(prometheus, 'instance:watchfire_clients:sum')
    assert.equal(Number(clients.value[1]), sockets.length)
  })

  it('gives data to each panel of the dashboard', async () => {
    // No page is transferred here.
    await dashboardHasData(prometheus, 'server.json', ['Relay time (mean)'])
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

describe('mirrors that Prometheus scrapes', () => {
  const folder = newFolder()
  let registry, fleet, prometheus, traffic

  before(async () => {
    registry = await Registry.start(path.join(folder, 'registry'))
    fleet = await Fleet.start(path.join(folder, 'fleet'), 2, ['--upstream', registry.url])
    const [server, ...mirrors] = fleet.hosts.map(({ mirror }) => `127.0.0.1:${mirror.port}`)
    prometheus = await startPrometheus(path.join(folder, 'prometheus'), server, [server, ...mirrors])
    traffic = pullImages()
  })

  after(async () => {
    traffic?.stop()
    await traffic?.ended
    await prometheus?.stop()
    await fleet?.stop()
    await registry?.stop()
  })

  /** Pushes one image after the other and pulls each from all hosts, and asks for one that does not exist. */
  function pullImages() {
    let isStopped = false
    const run = async () => {
      for (let n = 0; !isStopped; n++) {
        const image = makeImage([200_000])
        await push(registry, 'team/app', `v${n}`, image)
        for (const { mirror } of fleet.hosts) await pullImage(mirror.port, 'team/app', `v${n}`, image)
        await fetch(fleet.hosts[0].mirror.http('/v2/team/app/manifests/none'))
      }
    }
    return { stop: () => (isStopped = true), ended: run() }
  }

  it('give data to each panel of their dashboard', async () => {
    await dashboardHasData(prometheus, 'mirror.json')
    const [hosts] = await query(prometheus, 'sum(watchfire_mirror_fleet_known_hosts{job="watchfire-mirror"})')
    assert.equal(hosts.value[1], '2', 'each knows the other')
  })
})
