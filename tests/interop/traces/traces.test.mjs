// Distributed traces at a real OpenTelemetry collector. The program is built with the feature otlp.

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import net from 'node:net'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'

import { WebSocket } from 'ws'

import { blocksOf, tracedMessage, wantMessage } from '../browser/bitswap-messages.mjs'
import { addressOf, newVisitor, startServer } from '../browser/page-driver.mjs'
import { joinPage, silentHolder } from '../browser/raw-peer.mjs'
import { Collector, describe as describeSpan, whyNoCollector } from '../lib/collector.mjs'
import { Command } from '../lib/command-line.mjs'
import { waitUntil, withTimeout } from '../lib/deadlines.mjs'
import { Fleet, pullOne } from '../lib/fleet.mjs'
import { newFolder } from '../lib/folders.mjs'
import { API_KEY, api } from '../lib/http-api.mjs'
import { Kubo, whyNoKubo } from '../lib/kubo.mjs'
import { listeningPorts } from '../lib/listening-ports.mjs'
import { buildNats, startNats, whyNoNats } from '../lib/nats.mjs'
import { FaultyRegistry, Registry, digestOf, makeImage, push } from '../lib/registry.mjs'
import { ROOMS, startWatchfire } from '../lib/server.mjs'
import { portOf } from '../lib/listen.mjs'

const MIB = 1 << 20
const LOOPBACK = ['--listen', '/ip4/127.0.0.1/tcp/0']
const BATCH_MS = 2_500

describe('traces', { skip: whyNoCollector }, () => {
  let collector
  const folder = newFolder()

  before(async () => {
    collector = await Collector.start()
  })

  after(() => collector?.stop())

  const traces = () => ({ 'traces.endpoint': collector.endpoint })
  const environment = () => ({ OTEL_EXPORTER_OTLP_ENDPOINT: collector.endpoint })

  /** Waits until a trace has spans for which `complete` is true. */
  const traceWith = (trace, complete, what) =>
    collector.find((spans) => {
      const found = spans.filter((span) => span.trace === trace)
      return found.length > 0 && complete(found) && found
    }, what)

  it('of get and share are one tree', async (t) => {
    const film = randomBytes(9 * MIB)
    writeFileSync(path.join(folder, 'film.bin'), film)
    const share = new Command(t, folder, 'share', ['film.bin', ...LOOPBACK], environment())
    const { link } = await share.event('shared')
    const get = new Command(t, folder, 'get', [link, '--output', 'copy.bin'], environment())
    assert.equal(await get.ended(), 0, get.stderr)
    assert(readFileSync(path.join(folder, 'copy.bin')).equals(film))
    await share.interrupt()

    const root = await collector.find((spans) => spans.find(({ name, parent }) => name === 'get' && !parent), 'the span of get')
    const spans = await traceWith(root.trace, (found) => found.some(({ name }) => name === 'serve'), 'the span of the serving peer')
    assertTree(spans, root)
    const connect = only(spans, 'connect')
    assert.equal(connect.parent, root.id)
    const fetched = only(spans, 'fetch')
    assert.equal(fetched.parent, root.id)
    const blocks = only(spans, 'blocks from peer')
    assert.equal(blocks.parent, fetched.id)
    const served = only(spans, 'serve')
    assert.equal(served.parent, blocks.id)
    assert.deepEqual([blocks.service, served.service], ['watchfire-get', 'watchfire-share'])
    assert.equal(served.kind, 'Server')
    for (const { attributes } of [blocks, served]) {
      assert(Number(attributes['watchfire.bytes']) >= film.length, JSON.stringify(attributes))
      assert(Number(attributes['watchfire.blocks']) > 9)
    }
  })

  it('of get do not disturb kubo', { skip: whyNoKubo }, async (t) => {
    const kubo = await Kubo.start()
    t.after(() => kubo.stop())
    const film = randomBytes(3 * MIB)
    writeFileSync(path.join(folder, 'of-kubo.bin'), film)
    const cid = await kubo.add(path.join(folder, 'of-kubo.bin'), '--cid-version=1')
    const get = new Command(t, folder, 'get', [cid, '--peer', kubo.address, '--output', 'from-kubo.bin'], environment())
    assert.equal(await get.ended(), 0, get.stderr)
    assert(readFileSync(path.join(folder, 'from-kubo.bin')).equals(film))
    const blocks = await collector.find(
      (spans) => spans.find(({ attributes }) => attributes['watchfire.peer'] === kubo.peer),
      'the blocks of kubo',
    )
    assert(Number(blocks.attributes['watchfire.bytes']) >= film.length, describeSpan(blocks))
  })

  it('of get go on in the server of the page', async (t) => {
    const server = await startWatchfire({ settings: { ...traces(), 'traces.service_name': 'pages', 'traces.sample': 0 } })
    t.after(() => server.stop())
    writeFileSync(path.join(folder, 'notes.txt'), randomBytes(MIB))
    const site = `http://127.0.0.1:${server.port}`
    const share = new Command(t, folder, 'share', ['notes.txt', '--to', site, ...LOOPBACK], environment())
    const { page } = await share.event('shared')
    const get = new Command(t, folder, 'get', [page, '--output', 'notes-copy.txt'], environment())
    assert.equal(await get.ended(), 0, get.stderr)
    await share.interrupt()
    const cid = /\/p\/(\w+)/.exec(page)[1]
    const isRoot = ({ name, parent, attributes }) => name === 'get' && !parent && attributes['watchfire.root'] === cid
    const root = await collector.find((spans) => spans.find(isRoot), 'the span of get')
    const spans = await traceWith(
      root.trace,
      (found) => found.some(({ name }) => name === 'serve') && found.some(({ service }) => service === 'pages'),
      'the spans of all three',
    )
    const joins = spans.filter(({ name }) => name === 'join')
    const [near, far] = ['watchfire-get', 'pages'].map((service) => joins.find((span) => span.service === service))
    assert.equal(near.parent, root.id)
    assert.equal(far.parent, near.id)
    assert.equal(far.attributes['messaging.destination.name'], `page:${cid}`)
    assertTree(spans, root)
  })

  it('of a tab lead from its join to the peer that sends the blocks, and include what the tab reports', async (t) => {
    const server = await startWatchfire({ settings: { ...traces(), 'traces.service_name': 'tabs', 'traces.sample': 0.25 } })
    t.after(() => server.stop())
    assert.deepEqual((await (await fetch(server.http('/limits'))).json()).traces, { sample: 0.25 })
    const file = randomBytes(700_000)
    writeFileSync(path.join(folder, 'tab.bin'), file)
    const share = new Command(t, folder, 'share', ['tab.bin', '--to', `http://127.0.0.1:${server.port}`, ...LOOPBACK], environment())
    const { cid } = await share.event('shared')
    const { root, blocks } = blocksOf(file)
    assert.equal(root, cid)

    // The messages that web/packages/pages/src/swarm/load-trace.ts sends.
    const load = newContext()
    const [joining, fetching] = [newContext(), newContext()].map(({ span }) => span)
    const place = (span) => `00-${load.trace}-${span}-01`
    const tab = await joinPage(t, server, cid, 'none', silentHolder(), { traceparent: place(joining) })
    const wants = wantMessage([...blocks.values()].map((block) => block.cid))
    await tab.sendMessage(tab.introduced[0], tracedMessage(wants, place(fetching)))
    const spans = [
      { name: 'join', id: joining, start_ms: 0, took_ms: 4.25, peers: 1 },
      {
        name: 'blocks from peer',
        id: fetching,
        start_ms: 5,
        took_ms: 90,
        peer: tab.introduced[0].toString('hex'),
        blocks: 1,
        bytes: file.length,
      },
    ]
    const report = { traceparent: load.text, took_ms: 100, spans }
    for (const wrong of [
      {},
      [],
      { ...report, took_ms: -1 },
      { ...report, traceparent: 'x' },
      { ...report, spans: Array(65).fill(spans[0]) },
    ]) {
      assert.equal((await tab.push('trace', wrong)).response.reason, 'invalid report of a trace')
    }
    assert.equal((await tab.push('trace', report)).status, 'ok')
    const isThere = (found, service, name) => found.some((span) => span.service === service && span.name === name)
    await collector.find(
      (found) => found.some(({ name, trace }) => name === 'serve' && trace === load.trace),
      'the span of the serving peer, which ends when it is idle',
    )
    await share.interrupt()
    const found = await traceWith(
      load.trace,
      (all) => isThere(all, 'watchfire-share', 'serve') && isThere(all, 'tabs', 'load page'),
      'the spans of the tab, the server and the peer',
    )
    const top = only(found, 'load page')
    assert.deepEqual([top.parent, top.id], ['', load.span])
    assertTree(found, top)
    const [ours, theirs] = [joining, undefined].map((id) =>
      found.find((span) => span.name === 'join' && (id ? span.id === id : span.parent === joining)),
    )
    assert.equal(ours.parent, top.id)
    assert.equal(theirs.attributes['messaging.destination.name'], `page:${cid}`)
    assert.equal(only(found, 'blocks from peer').parent, top.id)
    const served = only(found, 'serve')
    assert.equal(served.parent, fetching)
    assert.equal(served.attributes['watchfire.bytes'], String(file.length))
    assert.equal(found.length, 5, found.map(describeSpan).join('\n'))
  })

  it('of a page that a real browser opens lead from the tab to the peer that sends the blocks', async (t) => {
    const server = await startServer(t, { settings: { ...traces(), 'traces.service_name': 'browsers' } })
    writeFileSync(path.join(folder, 'story.txt'), 'Once upon a time. '.repeat(60_000))
    const share = new Command(t, folder, 'share', ['story.txt', '--to', addressOf(server), ...LOOPBACK], environment())
    const { page, cid } = await share.event('shared')
    const visitor = await newVisitor(t, server)
    await visitor.goTo(page)
    const root = await collector.find(
      (spans) =>
        spans.find(
          ({ service, name, attributes }) => service === 'browsers' && name === 'load page' && attributes['watchfire.page'] === cid,
        ),
      'the span of the tab',
    )
    await share.interrupt()
    const spans = await traceWith(
      root.trace,
      (found) => found.some(({ service, name }) => service === 'watchfire-share' && name === 'serve'),
      'the span of the serving peer',
    )
    assertTree(spans, root)
    const [served] = spans.filter(({ service, name }) => service === 'watchfire-share' && name === 'serve')
    const fetched = spans.find(({ id }) => id === served.parent)
    assert.deepEqual([fetched.name, fetched.service, fetched.parent], ['blocks from peer', 'browsers', root.id])
    assert(Number(fetched.attributes['watchfire.bytes']) > 1_000_000, describeSpan(fetched))
    const names = spans.filter(({ service }) => service === 'browsers').map(({ name }) => name)
    assert(
      ['join', 'introduce'].every((name) => names.includes(name)),
      names.join(),
    )
    assert.deepEqual(visitor.pageErrors, [])
  })

  it('of a publish go on in the other processes, once for each', async (t) => {
    const server = await startWatchfire({ processes: 3, settings: { ...ROOMS, ...traces(), 'api.key': API_KEY, 'traces.sample': 0 } })
    t.after(() => server.stop())
    const received = await members(t, server, 'rooms:traced', 60)
    for (const headers of [{}, { 'Idempotency-Key': 'once' }]) {
      const caller = newContext()
      const before = received()
      await api(
        server,
        'publish',
        { topic: 'rooms:traced', event: 'note', payload: {} },
        { headers: { ...headers, traceparent: caller.text } },
      )
      await waitUntil(() => received() === before + 60, 'all get the message')
      const spans = await traceWith(
        caller.trace,
        has({ 'POST /api/{*method}': 1, publish: 1, deliver: 2 }),
        'the spans of all three processes',
      )
      const call = only(spans, 'POST /api/{*method}')
      assert.equal(call.parent, caller.span)
      assert.equal(call.attributes['http.response.status_code'], '200')
      const publish = only(spans, 'publish')
      assert.equal(publish.attributes['messaging.destination.name'], 'rooms:traced')
      const delivered = spans.filter(({ name }) => name === 'deliver')
      assert(delivered.every(({ parent, kind }) => parent === publish.id && kind === 'Consumer'))
      const pids = [publish, ...delivered].map(({ pid }) => pid)
      assert.deepEqual(pids.toSorted(), server.workers().toSorted(), 'one span in each process')
      assert.equal(spans.length, 4, spans.map(describeSpan).join('\n'))
    }
  })

  it('of a publish go on in another machine', { skip: whyNoNats }, async (t) => {
    await buildNats()
    const [nats] = await startNats(1)
    t.after(() => nats.kill())
    const settings = {
      ...ROOMS,
      ...traces(),
      'api.key': API_KEY,
      'traces.sample': 0,
      'cluster.nats': JSON.stringify([nats.url]),
      'cluster.prefix': 'test.traces',
    }
    const machines = await Promise.all([1, 2].map(() => startWatchfire({ settings })))
    t.after(() => Promise.all(machines.map((machine) => machine.stop())))
    await waitUntil(async () => (await machines[0].metric('watchfire_cluster_links')) === 1, 'the machines are connected')
    const received = await members(t, machines[1], 'rooms:far', 3)
    const caller = newContext()
    await api(machines[0], 'publish', { topic: 'rooms:far', event: 'note', payload: {} }, { headers: { traceparent: caller.text } })
    await waitUntil(() => received() === 3, 'the message arrives')
    const spans = await traceWith(caller.trace, has({ publish: 1, deliver: 1 }), 'the spans of both machines')
    assert.deepEqual(
      [only(spans, 'publish').pid, only(spans, 'deliver').pid],
      machines.map(({ pid }) => pid),
    )
    assert.equal(only(spans, 'deliver').parent, only(spans, 'publish').id)
  })

  it('of joins and connects begin in the client', async (t) => {
    const server = await startWatchfire({ settings: { ...ROOMS, ...traces(), 'traces.sample': 0 } })
    t.after(() => server.stop())
    const caller = newContext()
    const socket = await open(t, server, `&traceparent=${caller.text}`)
    await join(socket, 'rooms:one', { traceparent: caller.text })
    await join(socket, 'rooms:two', {})
    const spans = await traceWith(caller.trace, (found) => found.length >= 2, 'both spans')
    assert.deepEqual([only(spans, 'connect').parent, only(spans, 'join').parent], [caller.span, caller.span])
    assert.equal(only(spans, 'join').attributes['messaging.destination.name'], 'rooms:one')
  })

  it('begin in the server when they are sampled', async (t) => {
    const server = await startWatchfire({ settings: { ...ROOMS, ...traces(), 'traces.service_name': 'all' } })
    t.after(() => server.stop())
    await join(await open(t, server), 'rooms:sampled', {})
    assert.equal((await fetch(server.http('/limits'))).status, 200)
    const isOf = (name) => (span) => span.service === 'all' && span.name === name && span.parent === ''
    await collector.find((spans) => spans.find(isOf('join')) && spans.find(isOf('GET /limits')), 'a trace of a join and one of a request')
  })

  it('are not recorded for unsampled and invalid contexts', async (t) => {
    const server = await startWatchfire({ settings: { ...ROOMS, ...traces(), 'traces.service_name': 'strict', 'traces.sample': 0 } })
    t.after(() => server.stop())
    const { trace, text } = newContext()
    const unsampled = text.replace(/01$/, '00')
    const garbage = [
      '',
      'x',
      text.toUpperCase(),
      `${text}-00`,
      text.replace(trace, '0'.repeat(32)),
      text.replace(/^00/, 'ff'),
      'é'.repeat(27),
      'a'.repeat(6_000),
    ]
    for (const traceparent of [unsampled, ...garbage]) {
      const response = await fetch(server.http('/limits'), {
        headers: { traceparent: encodeURIComponent(traceparent) === traceparent ? traceparent : 'x' },
      })
      assert.equal(response.status, 200)
      const socket = await open(t, server, `&traceparent=${encodeURIComponent(traceparent)}`)
      await join(socket, 'rooms:garbage', { traceparent })
    }
    for (const traceparent of [7, null, [text], { text }]) await join(await open(t, server), 'rooms:garbage', { traceparent })
    const last = newContext()
    await fetch(server.http('/healthz'), { headers: { traceparent: last.text } })
    const isOfServer = ({ service }) => service === 'strict'
    const spans = await collector.find(
      (found) => found.some(({ trace: of }) => of === last.trace) && found.filter(isOfServer),
      'the last span',
    )
    assert.equal(spans.length, 1, spans.map(describeSpan).join('\n'))
  })

  it('of a mirrored blob lead to the registry and to the host that sent the blocks', async (t) => {
    const registry = await Registry.start(path.join(folder, 'registry'))
    t.after(() => registry.stop())
    const upstream = await FaultyRegistry.start(registry)
    t.after(() => upstream.stop())
    const image = makeImage([40 * MIB])
    await push(registry, 'app', 'v1', image)
    // The mirrors of a fleet are started with the environment of this process.
    process.env.OTEL_EXPORTER_OTLP_ENDPOINT = collector.endpoint
    t.after(() => delete process.env.OTEL_EXPORTER_OTLP_ENDPOINT)
    const fleet = await Fleet.start(path.join(folder, 'fleet'), 2, ['--upstream', upstream.url])
    t.after(() => fleet.stop())
    const digest = digestOf(image.layers[0])
    const pulls = []
    for (const { mirror } of fleet.hosts) {
      await pullOne(mirror.port, `/v2/app/manifests/${image.digest}`, image.digest)
      const caller = newContext()
      await get(mirror, `/v2/app/blobs/${digest}`, { traceparent: caller.text })
      pulls.push(caller)
    }

    const [first, second] = pulls
    const near = await traceWith(first.trace, has({ 'GET blob': 1, download: 1 }), 'the spans of the first host')
    const request = only(near, 'GET blob')
    assert.equal(request.parent, first.span)
    assert.equal(only(near, 'download').parent, request.id)
    assert.equal(only(near, 'download').attributes['watchfire.registry_bytes'], String(image.layers[0].length))
    const ranges = near.filter(({ name }) => name === 'fetch range')
    assert(ranges.length >= 2 && ranges.every(({ parent }) => parent === only(near, 'download').id))
    // Each request to the registry has a span, and carries it.
    const asked = upstream.requestsFor(image.layers[0]).map(({ headers }) => headers.traceparent)
    const requests = near.filter(({ name, attributes }) => name === 'upstream request' && attributes['url.path'].endsWith(digest))
    assert.deepEqual(
      asked.toSorted(),
      requests
        .filter(({ attributes }) => attributes['http.request.method'] === 'GET')
        .map(({ trace, id }) => `00-${trace}-${id}-01`)
        .toSorted(),
    )

    const all = has({ download: 1, 'fetch blocks': 1, 'blocks from peer': 1, serve: 1 })
    const far = await traceWith(second.trace, all, 'the spans of both hosts')
    const download = only(far, 'download')
    assert.equal(download.attributes['watchfire.registry_bytes'], '0')
    assert.equal(only(far, 'fetch blocks').parent, download.id)
    const blocks = only(far, 'blocks from peer')
    assert.equal(blocks.parent, only(far, 'fetch blocks').id)
    const served = only(far, 'serve')
    assert.equal(served.parent, blocks.id)
    assert.deepEqual(
      [served.pid, blocks.pid],
      fleet.hosts.map(({ mirror }) => mirror.pid),
    )
    assert.equal(served.attributes['watchfire.bytes'], String(image.layers[0].length))
  })

  it('are dropped without harm while the collector is away, and sent when it is back', async (t) => {
    const [port] = await listeningPorts(1)
    const endpoint = `http://127.0.0.1:${port}`
    const server = await startWatchfire({ settings: { ...ROOMS, 'traces.endpoint': endpoint } })
    t.after(() => server.stop())
    const lines = (pattern) => server.stderr.split('\n').filter((line) => pattern.test(line)).length
    const hit = () => Promise.all(Array.from({ length: 50 }, async () => assert.equal((await fetch(server.http('/limits'))).status, 200)))
    await hit()
    await waitUntil(() => lines(/cannot send spans/) === 1, 'the log has the failure')
    await hit()
    await new Promise((resolve) => setTimeout(resolve, BATCH_MS))
    assert.equal(lines(/cannot send spans/), 1, 'the failure is in the log once')
    const late = await Collector.start(port)
    t.after(() => late.stop())
    await waitUntil(async () => {
      await hit()
      return lines(/receives spans again.*dropped=1\d\d/) === 1
    }, 'the log has the end of the failure')
    await late.find((spans) => spans.length >= 50, 'spans at the collector')
    assert.equal(lines(/cannot send spans/), 1)
  })

  it('do not keep a command from its end', async (t) => {
    // Accepts connections and never answers.
    const silent = net.createServer(() => {}).listen(0, '127.0.0.1')
    await new Promise((resolve) => silent.once('listening', resolve))
    t.after(() => silent.close())
    writeFileSync(path.join(folder, 'small.txt'), 'small')
    const share = new Command(t, folder, 'share', ['small.txt', ...LOOPBACK])
    const { link } = await share.event('shared')
    const began = performance.now()
    const get = new Command(t, folder, 'get', [link, '--output', 'small-copy.txt'], {
      OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${portOf(silent)}`,
    })
    assert.equal(await get.ended(), 0, get.stderr)
    assert(performance.now() - began < 10_000)
    await share.interrupt()
  })
})

/** A trace context that a caller made up. */
function newContext() {
  const [trace, span] = [16, 8].map((bytes) => randomBytes(bytes).toString('hex'))
  return { trace, span, text: `00-${trace}-${span}-01` }
}

/** Whether spans have these names so often. Each process sends its own when it has some, so they come in any order. */
const has = (counts) => (spans) =>
  Object.entries(counts).every(([wanted, count]) => spans.filter(({ name }) => name === wanted).length >= count)

/** The only span with this name. */
function only(spans, name) {
  const found = spans.filter((span) => span.name === name)
  assert.equal(found.length, 1, `one span ${name} among\n${spans.map(describeSpan).join('\n')}`)
  return found[0]
}

/** Asserts that each span but the root has a parent among the others. */
function assertTree(spans, root) {
  const ids = new Set(spans.map(({ id }) => id))
  for (const span of spans) assert(span === root || span.id === root.id || ids.has(span.parent), `${describeSpan(span)} has no parent`)
}

async function open(t, server, query = '') {
  const socket = new WebSocket(`ws://127.0.0.1:${server.port}/socket/websocket?vsn=2.0.0${query}`)
  t.after(() => socket.terminate())
  await withTimeout(new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject)), 'a socket opens')
  return socket
}

async function join(socket, topic, payload) {
  const answer = withTimeout(new Promise((resolve) => socket.once('message', resolve)), 'the join is answered')
  socket.send(JSON.stringify(['1', '1', topic, 'phx_join', payload]))
  const [, , , event, { status }] = JSON.parse(await answer)
  assert.deepEqual([event, status], ['phx_reply', 'ok'])
}

/** Joins so many sockets to a topic. Returns a function that counts the notes which they got together. */
async function members(t, server, topic, count) {
  let notes = 0
  for (let n = 0; n < count; n++) {
    const socket = await open(t, server)
    await join(socket, topic, {})
    socket.on('message', (text) => (notes += JSON.parse(text.toString())[3] === 'note' ? 1 : 0))
  }
  return () => notes
}

async function get(server, pathname, headers) {
  const response = await fetch(server.http(pathname), { headers })
  assert.equal(response.status, 200)
  await response.arrayBuffer()
}
