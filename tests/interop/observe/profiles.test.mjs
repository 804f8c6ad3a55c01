// CPU profiles of a server and of commands under load, read by `go tool pprof` and an XML parser. They need a program that is
// built with the feature `profiles`: `make test-profiles`.

import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'

import { withTimeout } from '../lib/deadlines.mjs'
import { newFolder } from '../lib/folders.mjs'
import { ROOMS, binary, startWatchfire } from '../lib/server.mjs'

/** A busy machine finds the names of functions slowly. */
const ENDED_MS = 60_000

/** Users who join one room, and send messages to each other until the load is stopped. */
const SCENARIO = (port) => `
step_timeout = "20s"

[[targets]]
url = "ws://127.0.0.1:${port}"

[[phases]]
name = "arrivals"
duration = "2s"
rate = 50

[[phases]]
name = "steady"
duration = "600s"
rate = 0

[[sessions]]
name = "talker"
steps = [
  { connect = { path = "/socket/websocket?vsn=2.0.0" } },
  { join = { topic = "rooms:lobby", payload = { user = "\${id}" } } },
  { loop = { times = 100_000, steps = [
    { think = { exponential = "500ms" } },
    { push = { topic = "rooms:lobby", event = "new_msg", payload = { body = "hello" } } },
  ] } },
]
`

const whyNot = await reason()

/** Why this test cannot run; with PROFILES=1 that is a failure. */
async function reason() {
  const help = execFileSync(binary('watchfire'), ['get', '--help'], { encoding: 'utf8' })
  const why = help.includes('--cpu-profile') ? false : 'the program was built without the feature "profiles"'
  assert(!why || process.env.PROFILES !== '1', String(why))
  return why
}

/** Runs the program, and resolves with its exit code when it ends. */
function run(folder, args) {
  const child = spawn(binary('watchfire'), args, { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] })
  const process = { child, output: '', errors: '' }
  child.stdout.setEncoding('utf8').on('data', (text) => (process.output += text))
  child.stderr.setEncoding('utf8').on('data', (text) => (process.errors += text))
  process.ended = new Promise((resolve) => child.once('close', resolve))
  return process
}

/** Parses a flame graph, and returns the names of its functions with their share of the samples. */
function functions(svg) {
  const script = `
import json, sys, xml.etree.ElementTree as tree
frames = tree.parse(sys.stdin).getroot().iter('{http://www.w3.org/2000/svg}g')
print(json.dumps([[frame.get('data-name'), float(frame.get('data-w'))] for frame in frames]))`
  return JSON.parse(execFileSync('python3', ['-c', script], { input: svg, encoding: 'utf8', maxBuffer: 1e9 }))
}

/** Asserts that a flame graph names functions of a crate, and that none is wider than all together. */
function assertNames(svg, crate) {
  const frames = functions(svg)
  const names = frames.map(([name]) => name)
  assert(
    names.some((name) => name.includes(`${crate}::`)),
    `${crate} is not in ${names.join('\n')}`,
  )
  assert.deepEqual(frames[0], ['all', 1])
  assert(frames.every(([, width]) => width > 0 && width <= 1))
}

describe('CPU profiles', { timeout: 300_000, skip: whyNot }, () => {
  const folder = newFolder()
  let server, load

  before(async () => {
    server = await startWatchfire({ settings: ROOMS })
    writeFileSync(path.join(folder, 'load.toml'), SCENARIO(server.port))
    load = run(folder, ['load', 'load.toml', '--cpu-profile', 'load.svg'])
  })

  after(async () => {
    load?.child.kill('SIGKILL')
    await server?.stop()
  })

  async function profile(pathname, headers = {}) {
    const response = await fetch(await server.admin(pathname), { headers })
    assert.equal(response.status, 200, pathname)
    return Buffer.from(await response.arrayBuffer())
  }

  it('of a server under load are read by go tool pprof, which names our functions', async () => {
    const file = path.join(folder, 'server.pb')
    writeFileSync(file, await profile('/debug/pprof/profile?seconds=5'))
    const env = { ...process.env, PPROF_TMPDIR: folder, GOTOOLCHAIN: 'local' }
    const top = execFileSync('go', ['tool', 'pprof', '-top', '-cum', '-nodecount=1000', file], { env, encoding: 'utf8' })
    assert.match(top, /^Type: cpu$/m)
    assert.match(top, /^Duration: 5(\.\d+)?s, Total samples = /m)
    assert.match(top, /watchfire_sockets::/)
    assert.match(top, /watchfire_(server|hub|channels)::/)
    // Samples of threads can be told apart.
    const tags = execFileSync('go', ['tool', 'pprof', '-tags', file], { env, encoding: 'utf8' })
    assert.match(tags, /thread: Total/)
    assert.match(tags, /shard/)
  })

  it('of a server under load are flame graphs that are well-formed', async () => {
    assertNames((await profile('/debug/flamegraph?seconds=3')).toString(), 'watchfire_sockets')
  })

  it('of a load are written when it is interrupted', async () => {
    load.child.kill('SIGINT')
    await withTimeout(load.ended, 'the load ends', ENDED_MS)
    assert.match(load.errors, /The profile is in load\.svg\./)
    assertNames(readFileSync(path.join(folder, 'load.svg'), 'utf8'), 'watchfire_load')
  })

  it('of share and get are written when they end', async () => {
    writeFileSync(path.join(folder, 'film.bin'), Buffer.alloc(64 << 20, 'some content of a film '))
    const share = run(folder, ['share', 'film.bin', '--listen', '/ip4/127.0.0.1/tcp/0', '--cpu-profile', 'share.svg'])
    const link = await withTimeout(
      new Promise((resolve, reject) => {
        share.child.stdout.on('data', () => /watchfire:\S+/.exec(share.output) && resolve(/watchfire:\S+/.exec(share.output)[0]))
        share.child.once('close', () => reject(new Error(share.errors)))
      }),
      'the link is printed',
      ENDED_MS,
    )
    try {
      const get = run(folder, ['get', link, '--output', 'copy.bin', '--cpu-profile', 'get.svg'])
      assert.equal(await withTimeout(get.ended, 'the content is fetched', ENDED_MS), 0, get.errors)
      assertNames(readFileSync(path.join(folder, 'get.svg'), 'utf8'), 'watchfire_cli')
      share.child.kill('SIGINT')
      await withTimeout(share.ended, 'the share ends', ENDED_MS)
      assertNames(readFileSync(path.join(folder, 'share.svg'), 'utf8'), 'watchfire_cli')
    } finally {
      share.child.kill('SIGKILL')
    }
  })

  it('of a mirror are written when it is interrupted', async () => {
    const mirror = run(folder, [
      'mirror',
      '--upstream',
      'local=http://127.0.0.1:1',
      '--listen',
      '127.0.0.1:0',
      '--store',
      'store',
      '--cpu-profile',
      'mirror.svg',
    ])
    await withTimeout(
      new Promise((resolve, reject) => {
        mirror.child.stdout.once('data', resolve)
        mirror.child.once('close', () => reject(new Error(mirror.errors)))
      }),
      'the mirror runs',
      ENDED_MS,
    )
    mirror.child.kill('SIGINT')
    assert.equal(await withTimeout(mirror.ended, 'the mirror ends', ENDED_MS), 0, mirror.errors)
    // It had nothing to do, so it may have no samples.
    functions(readFileSync(path.join(folder, 'mirror.svg'), 'utf8'))
  })
})
