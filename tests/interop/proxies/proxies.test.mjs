// The snippets of docs/how-to/proxy.md work: real proxies with TLS in front of a server.

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { appendFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'

import { PageDriver, WAIT_MS } from '../browser/page-driver.mjs'
import { BY_RELAY_ONLY, launch } from '../lib/chromium.mjs'
import { withTimeout } from '../lib/deadlines.mjs'
import { newFolder } from '../lib/folders.mjs'
import { listeningPorts } from '../lib/listening-ports.mjs'
import { APP, PROXY_PROTOCOL_HOST, SITES, proxyNames, sendsProxyHeader, startProxy } from '../lib/proxies.mjs'
import { RawWebSocket, request, upgradeHeaders } from '../lib/raw-socket.mjs'
import { startWatchfire } from '../lib/server.mjs'
import { shareFolder } from '../lib/shared-folder.mjs'

const PHOENIX = path.join(path.dirname(createRequire(import.meta.url).resolve('phoenix-1.8.16')), 'phoenix.js')
/** `make test-proxies-long` runs the promises in full: polls of two minutes, many reconnects, and a large page. */
const IS_LONG = Boolean(process.env.PROXIES_LONG)
/** Longer than the 60 s after which nginx and others drop a request by default. */
const POLL_S = IS_LONG ? 120 : 65
const RECONNECTS = IS_LONG ? 1_000 : 200
const PAGE_BYTES = IS_LONG ? 300_000_000 : 20_000_000
const PAGE_MS = 60_000 + PAGE_BYTES / 1_000
/** More than the megabyte that nginx accepts by default. */
const LARGE_BYTES = 5_000_000

let browser
/**
 * A server behind each proxy.
 * @type {Record<string, any>}
 */
const stacks = Object.fromEntries(proxyNames.map((name) => [name, {}]))
before(async () => {
  const names = [APP, `*.${SITES}`].map((name) => `MAP ${name} 127.0.0.1`)
  browser = await launch([...BY_RELAY_ONLY, `--host-resolver-rules=${names}`, '--ignore-certificate-errors', '--no-proxy-server'])
  for (const [name, stack] of Object.entries(stacks)) {
    Object.assign(stack, await startBehind(name, { 'socket.sprites_window': `${POLL_S}s` }))
    // The polls wait while the other tests run.
    stack.poll = pollOnce(stack)
    stack.poll.catch(() => {}) // The test that awaits it reports it.
  }
})
after(async () => {
  await browser?.close()
  for (const { server, proxy } of Object.values(stacks)) {
    await proxy?.stop()
    await server?.stop()
  }
})

/** Starts a server and a proxy in front of it. */
async function startBehind(name, settings) {
  const [http, https] = await listeningPorts(2)
  const sites = { 'sites.domain': SITES, 'sites.app': `https://${APP}:${https}` }
  const hosts = ['127.0.0.1']
  const proxyProtocol = {}
  if (sendsProxyHeader(name)) {
    hosts.push(PROXY_PROTOCOL_HOST)
    // The port that every host gets is not known yet.
    proxyProtocol['server.proxy_protocol'] = `${PROXY_PROTOCOL_HOST}:0`
    // The clients of these tests come from loopback too, so not all of it can be trusted.
    proxyProtocol['server.trusted_proxies'] = '127.0.0.1/32'
  }
  const all = { 'server.drain_period': '100ms', 'channels.open_rooms': true, ...sites, ...proxyProtocol, ...settings }
  const server = await startWatchfire({ hosts, settings: all })
  try {
    return { server, proxy: await startProxy(name, server, { http, https }) }
  } catch (error) {
    server.kill()
    throw error
  }
}

const upgrade = (t, server, headers = {}) =>
  request(t, server, { path: '/socket/websocket?vsn=2.0.0', headers: { ...upgradeHeaders(), ...headers } })

/** A visitor with an empty profile, in the shared browser. */
async function newVisitor(t, { server, proxy }, options = {}) {
  const context = await browser.newContext(options)
  t.after(() => context.close())
  return PageDriver.inContext(server, context, { address: proxy.origin })
}

/** A poll for sprites that waits until the server ends it; returns its status, and the seconds it took. */
async function pollOnce({ proxy }) {
  const context = await browser.newContext()
  const tab = await context.newPage()
  await tab.goto(`${proxy.origin}/healthz`)
  const waited = await tab.evaluate(async () => {
    const { token } = await (await fetch('/sprites/meadow/join', { method: 'POST' })).json()
    const start = performance.now()
    const { status } = await fetch(`/sprites/meadow/poll?token=${encodeURIComponent(token)}`)
    return { status, seconds: (performance.now() - start) / 1000 }
  })
  await context.close()
  return waited
}

/** Runs in a page: npm phoenix over one transport joins a room, sends a message and a large one, and leaves. */
function exchange({ transport, topic, largeBytes }) {
  const { Socket, LongPoll } = globalThis.Phoenix
  const socket = new Socket('/socket', { transport: transport === 'websocket' ? WebSocket : LongPoll })
  socket.connect()
  const channel = socket.channel(topic)
  const answer = (push) =>
    new Promise((resolve) => {
      for (const status of ['ok', 'error', 'timeout']) push.receive(status, (response) => resolve({ status, response }))
    })
  const arrived = new Promise((resolve) => channel.on('new_msg', resolve))
  return (async () => {
    const join = await answer(channel.join())
    const push = await answer(channel.push('new_msg', { transport }))
    const message = await arrived
    // Rooms refuse events that they do not know. The refusal shows that the whole message arrived.
    const large = await answer(channel.push('large', { text: 'x'.repeat(largeBytes) }))
    socket.disconnect()
    return { statuses: [join.status, push.status], message, large }
  })()
}

for (const name of proxyNames) {
  describe(`behind ${name}`, () => {
    const stack = stacks[name]

    it('a page that one browser shares opens in another', async (t) => {
      const [holder, visitor] = [await newVisitor(t, stack), await newVisitor(t, stack)]
      const link = await holder.sharePage({ text: '# Through the proxy\n\nThe words.' })
      assert.equal(new URL(link).origin, stack.proxy.origin)
      await visitor.goTo(link)
      await visitor.waitForText('The words.')
      await visitor.waitForStatus('2 people have all of it, including you')
      for (const person of [holder, visitor]) person.assertNoPageErrors()
    })

    it('a site opens on its own origin below the sites’ domain', async (t) => {
      const script = '<h1>Home</h1><p id="output">nothing</p><script>output.textContent = location.origin</script>'
      const { cid } = await shareFolder(t, stack.server, { 'index.html': script })
      const visitor = await newVisitor(t, stack)
      await visitor.goTo(`/p/${cid}`)
      const site = visitor.tab.frameLocator('iframe[title="The site"]').frameLocator('iframe').frameLocator('iframe')
      await site.getByRole('heading', { name: 'Home' }).waitFor()
      await visitor.tab.getByRole('button', { name: 'Run its scripts' }).click()
      await site.locator('#output').getByText(`https://${cid}.${SITES}`).waitFor()
      visitor.assertNoPageErrors()
    })

    for (const transport of ['websocket', 'long poll']) {
      it(`npm phoenix over ${transport} joins, sends and receives, a large message too`, async (t) => {
        // The policy of our own pages allows no other scripts.
        const { tab } = await newVisitor(t, stack, { bypassCSP: true })
        await tab.goto(`${stack.proxy.origin}/healthz`)
        await tab.addScriptTag({ path: PHOENIX })
        const exchanged = tab.evaluate(exchange, { transport, topic: `rooms:${name}`, largeBytes: LARGE_BYTES })
        assert.deepEqual(await withTimeout(exchanged, 'the exchange', WAIT_MS), {
          statuses: ['ok', 'ok'],
          message: { transport },
          large: { status: 'error', response: { reason: 'unknown event' } },
        })
      })
    }

    it('the app’s own origin may connect, with and without a port, and no other', async (t) => {
      const { proxy } = stack
      const Origin = `https://${APP}`
      assert.equal((await upgrade(t, proxy.seenFrom(), { Origin: proxy.origin })).status, 101)
      assert.equal((await upgrade(t, proxy.seenFrom('127.0.0.1', APP), { Origin })).status, 101)

      // Any other address than that of the proxy.
      const client = proxy.seenFrom('127.0.0.9')
      const foreign = 'https://elsewhere.example'
      const claims = [{}, { 'X-Forwarded-Host': 'elsewhere.example' }, { Forwarded: 'host=elsewhere.example' }]
      for (const claim of claims) {
        const { status } = await upgrade(t, client, { Origin: foreign, ...claim })
        assert.equal(status, 403, JSON.stringify(claim))
      }
    })

    it('the limit per address counts the client, whatever it says about itself', async (t) => {
      const limited = await startBehind(name, {
        'server.trusted_proxies': '127.0.0.1/32',
        'limits.sockets_per_address_max': '2',
        'limits.loopback_limited': 'true',
      })
      const sockets = []
      t.after(async () => {
        for (const socket of sockets) socket.destroy()
        await limited.proxy.stop()
        await limited.server.stop()
      })
      const [one, other] = ['127.0.0.9', '127.0.0.8'].map((address) => limited.proxy.seenFrom(address))
      const statusOf = async (from, headers) => {
        const { status, socket } = await upgrade(t, from, headers)
        sockets.push(socket)
        return status
      }

      assert.deepEqual([await statusOf(one), await statusOf(one)], [101, 101])
      const claims = [
        {},
        { 'X-Forwarded-For': '198.51.100.7' },
        { 'X-Forwarded-For': ['198.51.100.7, 127.0.0.1', '127.0.0.1'] },
        { 'X-Forwarded-For': 'unknown' },
        { Forwarded: 'for=198.51.100.7' },
        { 'X-Real-IP': '198.51.100.7' },
        { Connection: 'Upgrade, X-Forwarded-For' },
      ]
      for (const claim of claims) assert.equal(await statusOf(one, claim), 429, JSON.stringify(claim))
      assert.equal(await statusOf(other), 101)
    })

    it(`a file of ${PAGE_BYTES / 1e6} MB passes from one browser to another`, async (t) => {
      const original = path.join(newFolder(t), 'film.bin')
      const noise = randomBytes(1_000_000)
      for (let at = 0; at < PAGE_BYTES; at += noise.length) {
        noise.writeUInt32BE(at)
        appendFileSync(original, noise)
      }
      const [holder, visitor] = [await newVisitor(t, stack), await newVisitor(t, stack)]
      await holder.goTo('/')
      await holder.compose({ files: [original] })
      await holder.tab.getByRole('button', { name: 'Light this page' }).click()
      await holder.waitUntilComplete(PAGE_MS)
      const opened = performance.now()
      await visitor.goTo(await holder.sharedLink())
      await visitor.waitUntilComplete(PAGE_MS)
      t.diagnostic(`${(PAGE_BYTES / 1e3 / (performance.now() - opened)).toFixed(1)} MB/s`)
      for (const person of [holder, visitor]) person.assertNoPageErrors()
    })

    it(`${RECONNECTS} reconnects of a WebSocket succeed`, async (t) => {
      for (let n = 0; n < RECONNECTS; n++) {
        const socket = await RawWebSocket.open(t, stack.proxy.seenFrom())
        const [, , , event] = await socket.request([null, '1', 'phoenix', 'heartbeat', {}])
        assert.equal(event, 'phx_reply')
        socket.destroy()
      }
    })

    it('plain HTTP is redirected to HTTPS', async (t) => {
      const { status, headers } = await request(t, stack.proxy.withoutTls, { path: '/chat?x=1', headers: { Connection: 'close' } })
      assert.ok([301, 308].includes(status), String(status))
      const { protocol, hostname, pathname, search } = new URL(headers.location)
      assert.deepEqual([protocol, hostname, pathname + search], ['https:', APP, '/chat?x=1'])
    })
  })
}

for (const name of proxyNames) {
  it(`${name} does not end a poll that waits for ${POLL_S} seconds`, async () => {
    const { status, seconds } = await stacks[name].poll
    assert.equal(status, 200)
    assert.ok(seconds > POLL_S - 1 && seconds < POLL_S + 15, `${seconds} s`)
  })
}
