// A registry (Debian's docker-registry, or its newer version 3), images for it, and a switch in front of it that breaks connections.

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import http from 'node:http'
import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'

import { sha256 } from './hashes.mjs'
import { closeServer, listen, portOf } from './listen.mjs'
import { Program } from './program.mjs'

/** Blobs that are pushed at a time. */
const PUSHES = 8
/** Version 3 sends traces to this machine unless it is told not to. */
const NO_TRACES = { OTEL_TRACES_EXPORTER: 'none' }
const MANIFEST = 'application/vnd.oci.image.manifest.v1+json'
const CONFIG = 'application/vnd.oci.image.config.v1+json'
const LAYER = 'application/vnd.oci.image.layer.v1.tar+gzip'

export const digestOf = (bytes) => `sha256:${sha256(bytes)}`

/** A running registry. */
export class Registry extends Program {
  port = 0

  /** Starts a registry with its content in a folder. `auth` is a section of its configuration. */
  static async start(folder, { port = 0, auth = '', program = 'docker-registry' } = {}) {
    mkdirSync(folder, { recursive: true })
    const file = path.join(folder, 'config.yml')
    const root = path.join(folder, 'content')
    writeFileSync(
      file,
      `version: 0.1\nstorage: {filesystem: {rootdirectory: ${root}}, delete: {enabled: true}}\nhttp: {addr: "127.0.0.1:${port}"}\n${auth}\n`,
    )
    const registry = new Registry(program, ['serve', file], { env: { ...process.env, ...NO_TRACES } })
    const listening = () => /listening on 127\.0\.0\.1:(\d+)\D/.exec(registry.output)
    registry.port = Number((await registry.until(listening, 'the registry listens'))[1])
    return registry
  }

  get url() {
    return `http://127.0.0.1:${this.port}`
  }

  /** Requests for a path that the registry has answered. */
  requests(method, pattern) {
    const lines = this.output.split('\n').filter((line) => line.includes('http.request.method') && line.includes('response completed'))
    return lines.filter((line) => line.includes(`http.request.method=${method}`) && pattern.test(line)).length
  }
}

/** An entry of a tar archive. */
function tarEntry(name, content) {
  const header = Buffer.alloc(512)
  header.write(name, 0)
  header.write('0000644\0', 100)
  header.write('0000000\0', 108)
  header.write('0000000\0', 116)
  header.write(`${content.length.toString(8).padStart(11, '0')}\0`, 124)
  header.write('00000000000\0', 136)
  header.write('        ', 148)
  header.write('0', 156)
  header.write('ustar\x0000', 257)
  const sum = header.reduce((total, byte) => total + byte, 0)
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148)
  const padding = Buffer.alloc((512 - (content.length % 512)) % 512)
  return Buffer.concat([header, content, padding])
}

/** A layer with one file of random bytes, which no compression makes smaller. */
function layer(bytes) {
  const tar = Buffer.concat([tarEntry(`file-${randomBytes(4).toString('hex')}`, randomBytes(bytes)), Buffer.alloc(1024)])
  return { tar, gzip: gzipSync(tar, { level: 1 }) }
}

/** An image with layers of these sizes, which a container engine can unpack. */
export function makeImage(layerBytes) {
  return ociImage(layerBytes.map(layer).map(({ tar, gzip }) => ({ blob: gzip, diffId: digestOf(tar) })))
}

/** An image with these layers: each with its compressed bytes, the digest of its tar, and perhaps annotations. */
export function ociImage(layers) {
  const config = Buffer.from(
    JSON.stringify({
      architecture: 'amd64',
      os: 'linux',
      config: { Cmd: ['/none'] },
      rootfs: { type: 'layers', diff_ids: layers.map(({ diffId }) => diffId) },
      history: layers.map(() => ({ created_by: 'test' })),
    }),
  )
  const descriptor = (mediaType, bytes, annotations) => ({ mediaType, digest: digestOf(bytes), size: bytes.length, annotations })
  const manifest = Buffer.from(
    JSON.stringify({
      schemaVersion: 2,
      mediaType: MANIFEST,
      config: descriptor(CONFIG, config),
      layers: layers.map(({ blob, annotations }) => descriptor(LAYER, blob, annotations)),
    }),
  )
  const blobs = layers.map(({ blob }) => blob)
  return { manifest, digest: digestOf(manifest), blobs: [config, ...blobs], layers: blobs, config }
}

/** Pushes an image, as the OCI specification describes it. */
export async function push(registry, repository, tag, image, headers = {}) {
  const left = [...image.blobs]
  const pushBlobs = async () => {
    while (left.length > 0) await pushBlob(registry, repository, left.shift(), headers)
  }
  await Promise.all(Array.from({ length: PUSHES }, pushBlobs))
  const pushed = await fetch(`${registry.url}/v2/${repository}/manifests/${tag}`, {
    method: 'PUT',
    headers: { 'content-type': MANIFEST, ...headers },
    body: image.manifest,
  })
  assert.equal(pushed.status, 201, await pushed.text())
}

async function pushBlob(registry, repository, blob, headers) {
  const started = await fetch(`${registry.url}/v2/${repository}/blobs/uploads/`, { method: 'POST', headers })
  assert.equal(started.status, 202, await started.text())
  const location = new URL(started.headers.get('location'), registry.url)
  location.searchParams.set('digest', digestOf(blob))
  const stored = await fetch(location, { method: 'PUT', headers: { 'content-type': 'application/octet-stream', ...headers }, body: blob })
  assert.equal(stored.status, 201, await stored.text())
}

/**
 * A server between a mirror and a registry. `answer` may answer a request itself, by returning true; otherwise the request
 * goes to the registry, and `spoil` sees each piece of the response's body and may change it or end it.
 */
export class FaultyRegistry {
  /** Every request, and how many bytes of its body were sent. */
  requests = []
  /** @type {(request: any, response: any) => unknown} Answers a request in its place, or returns false. */
  answer = () => false
  spoil = (_request, chunk) => chunk
  /** The rate of all bodies together, in bytes per second. */
  bytesPerSecond = Infinity
  /** Connections that were cut because it is down. */
  refused = 0
  #server
  #target
  #isDown = false
  /** The next byte may be sent at this time. */
  #freeAt = 0

  static async start(target, { address = '127.0.0.1' } = {}) {
    const faulty = new FaultyRegistry(target)
    await listen(faulty.#server, address)
    return faulty
  }

  constructor(target) {
    this.#target = target
    this.#server = http.createServer((request, response) => this.#handle(request, response))
    this.#server.on('connection', (socket) => {
      if (!this.#isDown) return
      this.refused++
      socket.destroy()
    })
  }

  get port() {
    return portOf(this.#server)
  }

  get url() {
    return `http://${this.#server.address().address}:${this.port}`
  }

  /** Whether it cuts all connections, and each new one. */
  set isDown(isDown) {
    this.#isDown = isDown
    if (isDown) this.#server.closeAllConnections()
  }

  /** The ports of the clients to which a blob is being sent. */
  receiversOf(blob) {
    const sending = this.requestsFor(blob).filter(({ isDone }) => !isDone())
    return sending.map(({ remotePort }) => remotePort)
  }

  /** The GET requests for a blob. */
  requestsFor(blob) {
    const end = `/blobs/${digestOf(blob)}`
    return this.requests.filter(({ method, url }) => method === 'GET' && url.endsWith(end))
  }

  /** How often the bytes of a blob were sent. */
  copiesOf(blob) {
    return this.requestsFor(blob).reduce((sum, { sent }) => sum + sent, 0) / blob.length
  }

  /** The time until bytes may be sent, in milliseconds. */
  #turn(bytes) {
    const now = performance.now()
    this.#freeAt = Math.max(now, this.#freeAt) + (bytes / this.bytesPerSecond) * 1000
    return this.#freeAt - now
  }

  #handle(request, response) {
    const { remotePort } = request.socket
    const isDone = () => response.destroyed || response.writableEnded
    const record = { method: request.method, url: request.url, headers: request.headers, remotePort, isDone, sent: 0 }
    this.requests.push(record)
    if (this.answer(request, response)) return
    const { method, url, headers } = request
    const forwarded = http.request({ host: '127.0.0.1', port: this.#target.port, method, path: url, headers })
    forwarded.once('response', (answer) => {
      response.writeHead(answer.statusCode, answer.headers)
      const send = (chunk) => {
        const changed = this.spoil(request, chunk)
        if (changed === null) return void response.destroy()
        if (response.destroyed) return
        record.sent += changed.length
        if (response.write(changed)) return void answer.resume()
        answer.pause()
        response.once('drain', () => answer.resume())
      }
      let last = Promise.resolve()
      answer.on('data', (chunk) => {
        if (this.bytesPerSecond === Infinity) return send(chunk)
        answer.pause()
        last = pause(this.#turn(chunk.length)).then(() => send(chunk))
      })
      answer.once('end', () => last.then(() => response.end()))
      answer.once('error', () => response.destroy())
    })
    forwarded.once('error', () => response.destroy())
    response.once('close', () => forwarded.destroy())
    request.pipe(forwarded)
  }

  stop() {
    return closeServer(this.#server)
  }
}
