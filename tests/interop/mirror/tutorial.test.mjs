// The commands of docs/tutorial/images.md work, with a registry of the test in place of Docker Hub.

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'

import { newFolder } from '../lib/folders.mjs'
import { listeningPorts } from '../lib/listening-ports.mjs'
import { FaultyRegistry, Registry, makeImage, push } from '../lib/registry.mjs'
import { binary } from '../lib/server.mjs'

const TUTORIAL = new URL('../../../docs/tutorial/images.md', import.meta.url)
const MIB = 1 << 20
const PORTS = ['5000', '5001', '5002', '5003']

const folder = newFolder()
let registry
let upstream

before(async () => {
  registry = await Registry.start(path.join(folder, 'registry'))
  upstream = await FaultyRegistry.start(registry)
})

after(async () => {
  await upstream?.stop()
  await registry?.stop()
})

/** The commands of the tutorial, with ports that are free and the registry of the test. */
async function script() {
  const blocks = [...readFileSync(TUTORIAL, 'utf8').matchAll(/^ *```sh\n(.*?)^ *```$/gms)]
  let text = blocks.map(([, commands]) => commands.replace(/^ {3}/gm, '')).join('\n')
  const free = await listeningPorts(PORTS.length)
  for (const [index, port] of PORTS.entries()) {
    assert.ok(text.includes(`127.0.0.1:${port}`), `the tutorial uses port ${port}`)
    text = text.replaceAll(`127.0.0.1:${port}`, `127.0.0.1:${free[index]}`)
  }
  text = text.replaceAll('--upstream docker.io ', `--upstream docker.io=${upstream.url} `)
  // A reader waits for a mirror to say that it runs before the next command.
  const ports = [...text.matchAll(/--listen 127\.0\.0\.1:(\d+)/g)].map(([, port]) => port)
  const runs = (port) => `until curl -sf http://127.0.0.1:${port}/healthz >/dev/null; do sleep 0.05; done`
  const joined = `until curl -sf http://127.0.0.1:${ports[1]}/status | grep -q '"known_hosts":1'; do sleep 0.05; done`
  const started = text.indexOf('watchfire mirror preload')
  return `set -em\n${text.slice(0, started)}\n${ports.map(runs).join('\n')}\n${joined}\n${text.slice(started)}\nwait || true\n`
}

/** Runs commands in bash. Returns their output. */
function bash(text) {
  const PATH = `${path.dirname(binary('watchfire'))}:${process.env.PATH}`
  const child = spawn('bash', ['-c', text], { cwd: folder, env: { ...process.env, PATH }, timeout: 60_000 })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (part) => (output += part))
  return new Promise((resolve) => child.once('close', (code) => resolve({ code, output })))
}

describe('the tutorial', () => {
  it('shares an image between two hosts', { timeout: 90_000 }, async () => {
    const image = makeImage([2 * MIB + 5, 1000])
    await push(registry, 'library/alpine', 'latest', image)
    const { code, output } = await bash(await script())
    assert.equal(code, 0, output)
    for (const blob of image.layers) assert.equal(upstream.copiesOf(blob), 1, output)
    assert.match(output, /from other hosts/i)
  })
})
