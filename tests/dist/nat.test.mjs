// Two browsers in two homes, each behind a router that translates addresses, and a server with the settings
// of the Debian package. WATCHFIRE=FILE tests another program than the packed one.

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { chmodSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { before, describe, it } from 'node:test'

import { launch } from '../interop/lib/chromium.mjs'
import { waitUntil, withTimeout } from '../interop/lib/deadlines.mjs'
import { areConnected, candidatePairOf, recordConnections } from '../interop/browser/direct-connections.mjs'
import { PageDriver } from '../interop/browser/page-driver.mjs'
import { generated } from '../interop/browser/fixtures.mjs'
import { SERVER, createHomes } from './lib/nat.mjs'
import { REPOSITORY, endingAfterAll, run, temporaryFolder, unpackArchive } from './lib/packed.mjs'

const ADDRESS = `http://${SERVER}:4000`
const SETTINGS = path.join(REPOSITORY, 'packaging/debian/config.toml')
const FILE_BYTES = 24 * 1024 * 1024
const CONNECT_MS = 60_000
/** Slow enough that the page is not loaded before there is a direct connection. */
const NARROW = 'limits.relay_bytes_per_second_per_peer=1048576'

const atEnd = endingAfterAll()
const program = process.env.WATCHFIRE ?? path.join(unpackArchive(atEnd), 'bin/watchfire')
let homes
before(() => {
  homes = createHomes(atEnd)
})

/** Starts the server on its machine, with the package's settings and these. */
async function startServer(t, ...settings) {
  const all = ['server.listen=203.0.113.1:4000', 'server.drain_period=0s', NARROW, ...settings]
  const [command, ...line] = homes.onServer(program, 'serve', '--config', SETTINGS, ...all.flatMap((setting) => ['--set', setting]))
  const child = spawn(command, line, { stdio: ['ignore', 'pipe', 'inherit'] })
  const ended = new Promise((resolve) => child.once('exit', resolve))
  t.after(async () => {
    child.kill('SIGTERM')
    await ended
  })
  await withTimeout(new Promise((resolve) => child.stdout.once('data', resolve)), 'the server runs')
}

/** A value of the server's metrics. */
function metric(name) {
  const [command, ...line] = homes.onServer('curl', '--silent', 'http://127.0.0.1:4010/metrics')
  const value = new RegExp(`^${name} (.*)$`, 'm').exec(run(command, line))?.[1]
  return Number(value ?? NaN)
}

/** A person in a home, with a browser of their own. */
async function personIn(t, home) {
  const wrapper = path.join(temporaryFolder(atEnd), 'chromium')
  writeFileSync(wrapper, `#!/bin/sh\nexec ${home(process.env.CHROMIUM ?? '/usr/bin/chromium').join(' ')} "$@"\n`)
  chmodSync(wrapper, 0o755)
  // A page without HTTPS has no service worker and no hashes; the proxy that adds HTTPS is tested elsewhere.
  const browser = await launch(['--no-proxy-server', `--unsafely-treat-insecure-origin-as-secure=${ADDRESS}`], wrapper)
  t.after(() => browser.close())
  const context = await browser.newContext()
  await recordConnections(context)
  return PageDriver.inContext(null, context, { address: ADDRESS })
}

/** One person shares a large file, and the other one begins to load it. */
async function shareAndLoad(t) {
  const file = path.join(temporaryFolder(atEnd), 'film.bin')
  writeFileSync(file, generated(FILE_BYTES))
  const [holder, visitor] = await Promise.all(homes.inHomes.map((home) => personIn(t, home)))
  const link = await holder.sharePage({ files: [file] })
  await visitor.goTo(link)
  return { holder, visitor }
}

describe('two browsers behind two routers', () => {
  it('connect directly, with the settings of the package', async (t) => {
    await startServer(t)
    const { holder, visitor } = await shareAndLoad(t)
    await waitUntil(() => areConnected(holder, visitor), 'a direct connection', CONNECT_MS)
    await visitor.waitUntilComplete(CONNECT_MS)
    const pair = await candidatePairOf(visitor)
    t.diagnostic(`${pair.bytesReceived} bytes came directly, from ${pair.remote}`)
    assert.match(pair.remote, / 203\.0\.113\.1[12]$/)
    assert.ok(pair.bytesReceived > FILE_BYTES / 4, `only ${pair.bytesReceived} bytes came directly`)
    assert.ok(metric('watchfire_stun_answers_outside_total') > 0)
  })

  it('exchange all content through a server whose STUN they cannot reach, and its operator is told', async (t) => {
    await startServer(t, 'stun.listen=127.0.0.1:3478')
    const { holder, visitor } = await shareAndLoad(t)
    await visitor.waitUntilComplete(CONNECT_MS * 2)
    assert.equal(await areConnected(holder, visitor), false)
    assert.equal(metric('watchfire_stun_answers_outside_total'), 0)
    assert.ok(metric('watchfire_pages_relayed_bytes_total') >= FILE_BYTES)
    await waitUntil(() => metric('watchfire_trouble\\{kind="stun_unreached"\\}') === 1, 'the trouble is named', CONNECT_MS)
  })
})
