// Mirrors of several hosts that share images, and a client that pulls from them.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import http from 'node:http'
import path from 'node:path'

import { SOON_MS, waitUntil } from './deadlines.mjs'
import { listeningPorts } from './listening-ports.mjs'
import { connectionsOf } from './process-sockets.mjs'
import { run } from './program.mjs'
import { digestOf } from './registry.mjs'
import { binary, startMirror } from './server.mjs'

/** Writes a new key of a fleet; returns its file. */
export function newFleetKey(file) {
  writeFileSync(file, execFileSync(binary('watchfire'), ['mirror', 'key']), { mode: 0o600 })
  return file
}

/** The status of the mirror of a host. Only programs on that host may ask for it. */
export async function statusOf({ mirror, within }) {
  const [program, ...args] = [...within, 'curl', '--silent', '--show-error', '--fail', mirror.http('/status')]
  const { stdout } = await run(program, args, { timeout: SOON_MS })
  return JSON.parse(stdout)
}

/** The mirrors of hosts that share images. */
export class Fleet {
  /** The hosts; each has its mirror, and the files and addresses with which it starts again. */
  hosts = []
  key
  /** Whether a new host gets the addresses of others with `--join`. */
  joins = true
  #folder
  #args

  /** Starts so many hosts. `args` are options of all of them. They know each other at the end. */
  static async start(folder, count, args) {
    const fleet = new Fleet(folder, args)
    try {
      await fleet.add()
      await Promise.all(Array.from({ length: count - 1 }, () => fleet.add()))
      await fleet.isConnected()
    } catch (error) {
      fleet.kill()
      throw error
    }
    return fleet
  }

  constructor(folder, args) {
    mkdirSync(folder, { recursive: true })
    this.#folder = folder
    this.#args = args
    this.key = newFleetKey(path.join(folder, 'key'))
  }

  /**
   * Starts one more host, without a wait for the others. `within` runs its program elsewhere, and `address` is its own there.
   */
  async add({ args = [], key = this.key, within = [], address = '127.0.0.1' } = {}) {
    const [port] = await listeningPorts(1)
    const host = { index: this.hosts.length, peer: `${address}:${port}`, args, key, within }
    host.store = path.join(this.#folder, `host-${host.index}`)
    this.hosts.push(host)
    await this.run(host)
    return host
  }

  /** Starts the mirror of a host, also after it was killed. */
  async run(host) {
    const others = this.joins ? this.hosts.filter((other) => other !== host && other.mirror?.isRunning) : []
    const join = others.slice(0, 3).flatMap(({ peer }) => ['--join', peer])
    const log = process.env.FLEET_LOGS ? ['--log-level', 'info,watchfire_mirror=debug'] : []
    const own = [...log, '--peer-listen', host.peer, '--fleet-key', host.key, ...join]
    host.mirror = await startMirror(host.store, [...this.#args, ...own, ...host.args], { within: host.within })
    await waitUntil(() => host.mirror.lines.some((line) => line.startsWith('Sharing images')), 'the mirror prints its address in the fleet')
  }

  get running() {
    return this.hosts.filter((host) => host.mirror?.isRunning)
  }

  /** Waits until each running host with the key of the fleet knows so many others as run. */
  async isConnected() {
    const running = this.running.filter(({ key }) => key === this.key)
    const known = async (host) => (await statusOf(host)).fleet.known_hosts
    await waitUntil(
      async () => Math.min(...(await Promise.all(running.map(known)))) >= running.length - 1,
      'all hosts of the fleet know each other',
    )
  }

  /** The host whose mirror has a connection with one of these local ports. */
  hostWithPort(ports) {
    return this.running.find(({ mirror }) => connectionsOf(mirror.pid).some(({ localPort }) => ports.includes(localPort)))
  }

  /** Kills the mirror of a host, like a power cut. */
  async killHost(host) {
    host.mirror.kill()
    await host.mirror.exited()
  }

  /** Writes what the mirrors logged to the folder of `FLEET_LOGS`, to look for a defect. */
  #keepLogs() {
    const folder = process.env.FLEET_LOGS
    if (!folder) return
    for (const { index, mirror } of this.hosts) writeFileSync(path.join(folder, `host-${index}.log`), mirror?.stderr ?? '')
  }

  kill() {
    for (const { mirror } of this.hosts) mirror?.kill()
  }

  /** Stops all mirrors, and asserts that none of them panicked. */
  async stop() {
    this.#keepLogs()
    const stopped = await Promise.allSettled(this.running.map(({ mirror }) => mirror.stop()))
    for (const { mirror } of this.hosts) assert.doesNotMatch(mirror?.stderr ?? '', /panicked/, 'a mirror panicked')
    for (const end of stopped) if (end.status === 'rejected') throw end.reason
  }
}

/** Why a pull failed: the status of the response, or that it was cut. */
export class PullError extends Error {
  constructor(target, { status, isCut = false, text = '' }) {
    super(`${target}: status ${status}${isCut ? ', and the response was cut' : ''} ${text}`)
    this.status = status
    this.isCut = isCut
  }
}

/**
 * Reads one path of a mirror and verifies its digest. Returns its bytes if `keeps`, its source, and the longest time without
 * a byte. `onBytes` gets the number of bytes that have arrived, and the milliseconds without one before. Fails with a `PullError`,
 * or with another error if the whole response has another digest.
 */
export function pullOne(
  port,
  target,
  digest,
  { keeps = false, onBytes = (/** @type {number} */ _bytes, /** @type {number} */ _ms) => {} } = {},
) {
  return new Promise((resolve, reject) => {
    const hash = createHash('sha256')
    const chunks = []
    let pauseMs = 0
    let lastAt = performance.now()
    const notePause = () => {
      const ms = performance.now() - lastAt
      pauseMs = Math.max(pauseMs, ms)
      lastAt += ms
      return ms
    }
    const request = http.get({ host: '127.0.0.1', port, path: target, headers: { accept: '*/*' }, agent: false })
    request.once('error', reject)
    request.once('response', (response) => {
      const { statusCode: status, headers } = response
      const source = headers['watchfire-source']
      response.on('data', (chunk) => {
        const ms = notePause()
        hash.update(chunk)
        if (keeps || status !== 200) chunks.push(chunk)
        onBytes(chunk.length, ms)
      })
      response.once('error', () => reject(new PullError(target, { status, isCut: true })))
      response.once('end', () => {
        notePause()
        const body = Buffer.concat(chunks)
        if (status !== 200) return void reject(new PullError(target, { status, text: body.toString() }))
        const actual = `sha256:${hash.digest('hex')}`
        if (actual !== digest) return void reject(new Error(`${target}: a complete response with the digest ${actual}`))
        resolve({ body, source, pauseMs })
      })
    })
  })
}

/** @typedef {{ connections?: number, onBytes?: (bytes: number, ms: number) => void }} PullOptions */

/** Pulls an image as an engine does: the manifest by its tag, and then the blobs, several at a time. */
export async function pullImage(port, repository, tag, image, /** @type {PullOptions} */ { connections = 3, onBytes } = {}) {
  const manifest = await pullOne(port, `/v2/${repository}/manifests/${tag}`, image.digest, { keeps: true })
  const { config, layers } = JSON.parse(manifest.body)
  const left = [...new Set([config, ...layers].map(({ digest }) => digest))]
  const sources = new Set([manifest.source])
  let pauseMs = 0
  const pullBlobs = async () => {
    while (left.length > 0) {
      const digest = left.shift()
      const pulled = await pullOne(port, `/v2/${repository}/blobs/${digest}`, digest, { onBytes })
      sources.add(pulled.source)
      pauseMs = Math.max(pauseMs, pulled.pauseMs)
    }
  }
  await Promise.all(Array.from({ length: connections }, pullBlobs))
  return { sources, pauseMs }
}

/** Pulls an image as `pullImage` does, by a program on the host of the mirror; returns the sources of its answers. */
export async function pullImageWithin({ mirror, within }, repository, tag, image) {
  const sources = new Set()
  const get = async (target, digest) => {
    const [program, ...args] = [...within, 'curl', '--silent', '--show-error', '--include', '--header', 'accept: */*', mirror.http(target)]
    const { stdout } = await run(program, args, { timeout: SOON_MS, encoding: 'buffer', maxBuffer: 1 << 28 })
    const end = stdout.indexOf('\r\n\r\n')
    const head = stdout.subarray(0, end).toString()
    const body = stdout.subarray(end + 4)
    const status = Number(head.split(' ')[1])
    if (status !== 200) throw new PullError(target, { status, text: body.toString() })
    assert.equal(digestOf(body), digest)
    sources.add(/^watchfire-source: (.*)$/im.exec(head)[1])
  }
  await get(`/v2/${repository}/manifests/${tag}`, image.digest)
  for (const blob of new Set(image.blobs)) await get(`/v2/${repository}/blobs/${digestOf(blob)}`, digestOf(blob))
  return sources
}

/** Pulls an image until it is complete, on a host that has just started and may not find what others have yet. */
export function pullImageSoon(port, repository, tag, image) {
  const pull = async () => {
    try {
      return await pullImage(port, repository, tag, image)
    } catch (error) {
      if (error instanceof PullError) return false
      throw error
    }
  }
  return waitUntil(pull, `a new host gets the image ${tag}`, SOON_MS)
}

/** Pulls one blob until it is complete, as an engine that tries again. Any response with wrong bytes is an error at once. */
export function pullAgain(port, repository, blob, what, ms) {
  const digest = digestOf(blob)
  return waitUntil(
    async () => {
      try {
        return await pullOne(port, `/v2/${repository}/blobs/${digest}`, digest)
      } catch (error) {
        if (error instanceof PullError || error.code) return false
        throw error
      }
    },
    what,
    ms,
  )
}
