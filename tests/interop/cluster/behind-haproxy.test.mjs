// Three machines behind HAProxy, with the snippet of docs/how-to/use-several-machines.md: tabs of Chromium and phoenix clients.

import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'

import { PageDriver, cidOf } from '../browser/page-driver.mjs'
import { BY_RELAY_ONLY, launch } from '../lib/chromium.mjs'
import { waitUntil } from '../lib/deadlines.mjs'
import { newFolder } from '../lib/folders.mjs'
import { joinAll, startMachines, untilAllSee } from '../lib/machines.mjs'
import { buildNats, startNats, whyNoNats } from '../lib/nats.mjs'
import { newest } from '../lib/phoenix-clients.mjs'
import { APP, startBalancer } from '../lib/proxies.mjs'
import { freshTopic, variants } from '../lib/test-client.mjs'

const TOKEN = 'a token of the operator'
const DENIED = 'The operator of this server has blocked this page.'
/** A client is back when HAProxy has noticed two failed checks, or when its closed connection has reconnected. */
const BACK_MS = 20_000
const way = (isPoll) => variants.find((variant) => variant.library === newest && variant.isPoll === isPoll)

describe('three machines behind HAProxy', { skip: whyNoNats }, () => {
  const folder = newFolder()
  let nats, machines, balancer, browser
  /** The balancer, as a server to which `joinAll` connects. */
  let entrance

  before(async () => {
    // The clients in this process do not know the certificate of the balancer; those in the browser neither.
    process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0'
    await buildNats()
    nats = await startNats(1)
    const more = [0, 1, 2].map((at) => {
      const list = path.join(folder, `machine-${at}`)
      writeFileSync(list, '')
      return { 'pages.deny_file': list, 'admin.token': TOKEN }
    })
    machines = await startMachines(
      [0, 1, 2].map(() => [nats[0].url]),
      { processes: [1, 2, 1], more },
    )
    balancer = await startBalancer(machines)
    entrance = { endpoint: `${balancer.origin.replace('https', 'wss').replace(APP, '127.0.0.1')}/socket` }
    browser = await launch([
      ...BY_RELAY_ONLY,
      `--host-resolver-rules=MAP ${APP} 127.0.0.1`,
      '--ignore-certificate-errors',
      '--no-proxy-server',
    ])
  })
  after(async () => {
    await browser?.close()
    await balancer?.stop()
    await Promise.all((machines ?? []).map((machine) => (machine.isRunning ? machine.stop() : undefined)))
    await Promise.all((nats ?? []).map((server) => server.kill()))
    delete process.env.NODE_TLS_REJECT_UNAUTHORIZED
  })

  const newVisitor = async (t) => {
    const context = await browser.newContext()
    t.after(() => context.close())
    return PageDriver.inContext(machines[0], context, { address: balancer.origin })
  }
  /** How many WebSockets each machine has. */
  const sockets = () => Promise.all(machines.map((machine) => machine.metric('watchfire_channels_clients', 'transport="websocket"')))

  it('a page passes from a tab on one machine to tabs on the others, and a denial on one machine ends it on all', async (t) => {
    const [holder, ...visitors] = [await newVisitor(t), await newVisitor(t), await newVisitor(t)]
    const link = await holder.sharePage({ text: '# Over three machines\n\nThe words.' })
    for (const visitor of visitors) {
      await visitor.goTo(link)
      await visitor.waitForText('The words.')
    }
    assert.deepEqual(await sockets(), [1, 1, 1], 'each tab is connected to another machine')
    await visitors[1].waitForStatus('3 people have all of it, including you')

    const change = (method) => async (at) => {
      const url = await machines[at].admin(`/admin/denied/${cidOf(link)}`)
      const response = await fetch(url, { method, headers: { authorization: `Bearer ${TOKEN}` } })
      return response.json()
    }
    assert.deepEqual(await change('PUT')(0), { denied: true, changed: true, failed: 0 })
    for (const person of [holder, ...visitors]) await person.waitForText(DENIED)
    // The second machine has two processes: either may serve this call, and the other one sees the file within a second.
    assert.equal((await change('GET')(2)).denied, true)
    assert.deepEqual(await change('DELETE')(2), { denied: false, changed: true, failed: 0 })
    assert.equal((await change('GET')(0)).denied, false)
    for (const person of [holder, ...visitors]) person.assertNoPageErrors()
  })

  it('WebSockets are distributed, and a long-poll client stays on its machine', async (t) => {
    const topic = freshTopic('room')
    const members = [...(await joinAll(t, Array(6).fill(entrance), topic)), ...(await joinAll(t, [entrance, entrance], topic, way(true)))]
    await untilAllSee(members, 8, 'all see all eight')
    assert.deepEqual(await sockets(), [2, 2, 2])
    for (const [at, { channel }] of members.entries()) channel.push('note', { text: `from ${at}` })
    for (const { messages } of members) {
      const texts = (await messages.take(8)).map(({ text }) => text)
      assert.deepEqual(
        texts.toSorted(),
        members.map((_, at) => `from ${at}`),
      )
    }
  })

  it('clients of a machine that is killed are back on the others', async (t) => {
    const members = await joinAll(t, Array(6).fill(entrance), freshTopic('room'))
    await untilAllSee(members, 6, 'all see all six')
    const before = await sockets()
    machines[2].kill()
    machines.pop()
    await waitUntil(async () => (await sockets()).reduce((sum, count) => sum + count) === 6, `six WebSockets, before ${before}`, BACK_MS)
    await untilAllSee(members, 6, 'all see six again, and no ghost', BACK_MS)
    members[5].channel.push('note', { text: 'still here' })
    for (const { messages } of members) assert.equal((await messages.take(1))[0].text, 'still here')
  })
})
