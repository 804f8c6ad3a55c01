// HTTP files through mirrors: a fleet fetches a file once from nginx, and clients see what they would see at the server.

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, afterEach, before, describe, it } from 'node:test'

import { waitUntil } from '../lib/deadlines.mjs'
import { requestExactly } from '../lib/exact-request.mjs'
import { Nginx, ScriptedServer, sendBytes } from '../lib/file-servers.mjs'
import { newFolder } from '../lib/folders.mjs'
import { Fleet } from '../lib/fleet.mjs'
import { sha256 } from '../lib/hashes.mjs'
import { run } from '../lib/program.mjs'
import { binary, startMirror } from '../lib/server.mjs'

const MIB = 1 << 20
const FILE_BYTES = 20 * MIB + 777
/** How often the server may send the bytes of a file. */
const COPIES_MAX = 1.05

const folder = newFolder()

/** The code and the message of an answer with an error. */
function errorOf({ status, headers, bytes }) {
  assert.equal(headers['content-type'], 'application/json', `status ${status}: ${bytes.subarray(0, 200)}`)
  const { errors } = JSON.parse(bytes)
  return { status, ...errors[0] }
}

describe('a fleet with files of nginx', () => {
  let nginx
  let fleet

  before(async () => {
    nginx = await Nginx.start(newFolder())
  })

  after(() => nginx?.stop())

  afterEach(async () => {
    await fleet?.stop()
    fleet = undefined
  })

  const host = () => `models.example=${nginx.url}`

  function newFile(name, bytes = randomBytes(FILE_BYTES)) {
    writeFileSync(path.join(nginx.files, name), bytes)
    return bytes
  }

  it('fetches a file once for 3 hosts, and gives it to a fourth when the server is off', { timeout: 60_000 }, async () => {
    const bytes = newFile('model.bin')
    const small = newFile('small.bin', randomBytes(1000))
    fleet = await Fleet.start(newFolder(), 3, ['--proxy-host', host(), '--offline-ok'])
    for (const [name, content] of [
      ['model.bin', bytes],
      ['small.bin', small],
    ]) {
      const answers = await Promise.all(fleet.hosts.map(({ mirror }) => requestExactly(mirror, `/proxy/models.example/${name}`)))
      for (const { status, headers, bytes: received } of answers) {
        assert.equal(status, 200)
        assert.equal(headers['watchfire-source'], 'fleet')
        assert.equal(headers['content-type'], 'application/x-model')
        assert.ok(received.equals(content), 'the bytes are those of the file')
      }
    }
    // nginx logs a request when it has ended.
    await waitUntil(() => nginx.bytesOf('/model.bin') >= FILE_BYTES && nginx.bytesOf('/small.bin') >= 1000, 'nginx logs the requests')
    const copies = [nginx.bytesOf('/model.bin') / FILE_BYTES, nginx.bytesOf('/small.bin') / 1000]
    for (const one of copies) assert.ok(one >= 1 && one <= COPIES_MAX, `nginx sent ${copies.join(' and ')} copies`)

    await nginx.stop()
    const late = await fleet.add()
    await fleet.isConnected()
    const etag = (await requestExactly(fleet.hosts[0].mirror, '/proxy/models.example/model.bin', { method: 'HEAD' })).headers.etag
    for (const [name, content] of [
      ['model.bin', bytes],
      ['small.bin', small],
    ]) {
      let answer
      await waitUntil(async () => {
        answer = await requestExactly(late.mirror, `/proxy/models.example/${name}`)
        return answer.status === 200
      }, `the new host serves ${name}`)
      assert.equal(answer.headers['watchfire-source'], 'fleet')
      assert.ok(answer.bytes.equals(content), 'the bytes are those of the file')
      if (name === 'model.bin') assert.equal(answer.headers.etag, etag)
    }
    const unknown = errorOf(await requestExactly(late.mirror, '/proxy/models.example/unknown.bin'))
    assert.equal(unknown.status, 502)
    assert.match(unknown.message, /cannot reach models\.example/)
    const { stdout } = await run(binary('watchfire'), ['mirror', 'status', '--mirror', `http://127.0.0.1:${late.mirror.port}`])
    assert.match(stdout, new RegExp(`Files     2\n  ${nginx.url}/model.bin  20.0 MiB\n`))
    await nginx.run()
  })

  it('serves a changed file when the version is old', { timeout: 60_000 }, async () => {
    const before = newFile('changing.bin', randomBytes(3 * MIB))
    fleet = await Fleet.start(newFolder(), 2, ['--proxy-host', host(), '--tag-ttl', '1s'])
    const get = (index) => requestExactly(fleet.hosts[index].mirror, '/proxy/models.example/changing.bin')
    const first = await get(0)
    assert.ok(first.bytes.equals(before))
    const after = newFile('changing.bin', randomBytes(4 * MIB))
    let answer
    await waitUntil(async () => {
      answer = await get(0)
      assert.ok(answer.bytes.equals(before) || answer.bytes.equals(after), 'the answer is one of the two versions')
      return answer.bytes.equals(after)
    }, 'the mirror serves the new version')
    assert.notEqual(answer.headers.etag, first.headers.etag)
    assert.ok((await get(1)).bytes.equals(after))
    rmSync(path.join(nginx.files, 'changing.bin'))
    await waitUntil(async () => (await get(0)).status === 404, 'the mirror notices that the file is gone')
  })
})

describe('a mirror with files of nginx', () => {
  let nginx
  let mirror
  let bytes
  const target = '/proxy/models.example/model.bin'

  before(async () => {
    nginx = await Nginx.start(newFolder())
    bytes = randomBytes(5 * MIB + 99)
    writeFileSync(path.join(nginx.files, 'model.bin'), bytes)
    writeFileSync(path.join(nginx.files, 'empty.bin'), '')
    mirror = await startMirror(newFolder(), ['--proxy-host', `models.example=${nginx.url}`])
  })

  after(async () => {
    await mirror?.stop()
    await nginx?.stop()
  })

  const url = () => `http://127.0.0.1:${mirror.port}${target}`

  it('answers as nginx does', { timeout: 30_000 }, async () => {
    for (const method of ['HEAD', 'GET', 'HEAD']) {
      const own = await requestExactly(nginx, '/model.bin', { method })
      const { status, headers, bytes: received } = await requestExactly(mirror, target, { method })
      assert.equal(status, 200)
      for (const name of ['etag', 'last-modified', 'content-length', 'content-type', 'accept-ranges'])
        assert.equal(headers[name], own.headers[name], name)
      assert.equal(headers['docker-distribution-api-version'], undefined)
      assert.ok(received.equals(own.bytes))
    }
    const empty = await requestExactly(mirror, '/proxy/models.example/empty.bin')
    assert.deepEqual([empty.status, empty.headers['content-length'], empty.bytes.length], [200, '0', 0])
    const missing = await requestExactly(mirror, '/proxy/models.example/missing.bin')
    assert.equal(missing.status, 404)
    assert.match(String(missing.bytes), /nginx/)
  })

  it('answers ranges and conditions', { timeout: 30_000 }, async () => {
    const size = bytes.length
    const { etag, 'last-modified': modified } = (await requestExactly(mirror, target, { method: 'HEAD' })).headers
    for (const [range, start, end] of [
      ['bytes=0-0', 0, 1],
      ['bytes=5-1048580', 5, 1048581],
      ['bytes=-5', size - 5, size],
      [`bytes=${size - 7}-`, size - 7, size],
      ['bytes=10-99999999999', 10, size],
    ]) {
      const { status, headers, bytes: received } = await requestExactly(mirror, target, { headers: { range } })
      assert.deepEqual([status, headers['content-range']], [206, `bytes ${start}-${end - 1}/${size}`])
      assert.ok(received.equals(bytes.subarray(start, end)), range)
    }
    const many = await requestExactly(mirror, target, { headers: { range: `bytes=${'0-1,'.repeat(10_000)}` } })
    assert.deepEqual([many.status, many.bytes.length], [200, size])
    const beyond = await requestExactly(mirror, target, { headers: { range: `bytes=${size}-` } })
    assert.equal(errorOf(beyond).status, 416)
    assert.equal(beyond.headers['content-range'], `bytes */${size}`)
    const status = async (headers) => (await requestExactly(mirror, target, { headers })).status
    assert.equal(await status({ 'if-none-match': etag }), 304)
    assert.equal(await status({ 'if-none-match': '"x"' }), 200)
    assert.equal(await status({ 'if-match': '"x"' }), 412)
    assert.equal(await status({ range: 'bytes=0-1', 'if-range': etag }), 206)
    assert.equal(await status({ range: 'bytes=0-1', 'if-range': modified }), 206)
    assert.equal(await status({ range: 'bytes=0-1', 'if-range': '"x"' }), 200)
  })

  it('lets curl resume', { timeout: 30_000 }, async () => {
    const file = path.join(folder, 'resumed')
    await run('curl', ['--silent', '--fail', '--output', file, url()])
    truncateSync(file, 2 * MIB + 5)
    await run('curl', ['--silent', '--fail', '--continue-at', '-', '--output', file, url()])
    assert.ok(readFileSync(file).equals(bytes))
    const { stdout } = await run('curl', ['--silent', '--range', '3-9', url()], { encoding: 'buffer' })
    assert.ok(stdout.equals(bytes.subarray(3, 10)))
  })

  it('refuses what it should not request', { timeout: 30_000 }, async () => {
    const error = async (path, options) => errorOf(await requestExactly(mirror, path, options))
    const other = await error('/proxy/other.example/a')
    assert.deepEqual([other.status, other.code], [403, 'DENIED'])
    assert.match(other.message, /"other\.example".*--proxy-host/)
    const before = nginx.requests('/model.bin').length
    for (const path of ['../model.bin', 'a/%2e%2e/model.bin', 'a%2f..%2fmodel.bin', 'a%00', 'a?b=%0d%0aX:y', 'x'.repeat(10_000)]) {
      assert.equal((await error(`/proxy/models.example/${path}`)).status, 400, path.slice(0, 30))
    }
    assert.equal((await error(target, { method: 'PUT' })).status, 405)
    assert.equal((await error('/proxy/models.example@other.example/a')).status, 403)
    assert.equal(nginx.requests('/model.bin').length, before)
    const blob = await error(`/v2/a/blobs/sha256:${'0'.repeat(64)}`)
    assert.deepEqual([blob.status, blob.message], [404, 'no registry is mirrored: name one with --upstream'])
  })
})

describe('a mirror with other servers of files', { concurrency: true }, () => {
  const servers = []
  const mirrors = []

  after(async () => {
    for (const mirror of mirrors) await mirror.stop()
    for (const server of servers) await server.stop()
  })

  async function startServer(answer) {
    const server = await ScriptedServer.start(answer)
    servers.push(server)
    return server
  }

  /** Starts a mirror in front of a server. */
  async function mirrorOf(server, args = []) {
    const mirror = await startMirror(newFolder(), ['--proxy-host', `models.example=${server.url}`, ...args])
    mirrors.push(mirror)
    return mirror
  }

  const get = (mirror, options) => requestExactly(mirror, '/proxy/models.example/file', options)

  const CDN = ['--allow-redirect', '127.0.0.0/8']

  /** A server like huggingface.co: it redirects to another one, which refuses HEAD and does not know the digest. */
  async function hub(bytes, digest = sha256(bytes)) {
    const store = await startServer((request, response) => {
      if (request.method === 'HEAD') return response.writeHead(403).end()
      sendBytes(request, response, bytes, { etag: '"of-the-store"', 'content-type': 'binary/octet-stream' })
    })
    const headers = { 'x-linked-etag': `"${digest}"`, 'x-linked-size': bytes.length, 'x-repo-commit': 'c0ffee', link: '<a>; rel="b"' }
    const front = await startServer((_, response) => response.writeHead(302, { location: `${store.url}/signed?x=1`, ...headers }).end())
    return { front, store }
  }

  it('keeps the headers of a redirect, and verifies the digest', { timeout: 30_000 }, async () => {
    const bytes = randomBytes(3 * MIB)
    const { front, store } = await hub(bytes)
    const mirror = await mirrorOf(front, CDN)
    for (const method of ['HEAD', 'GET', 'GET']) {
      const { status, headers, bytes: received } = await get(mirror, { method })
      assert.equal(status, 200)
      assert.deepEqual(
        [headers.etag, headers['x-linked-etag'], headers['x-repo-commit'], headers['content-length'], headers.link],
        [`"${sha256(bytes)}"`, `"${sha256(bytes)}"`, 'c0ffee', `${bytes.length}`, '<a>; rel="b"'],
      )
      if (method === 'GET') assert.equal(sha256(received), sha256(bytes))
    }
    const ranges = store.requests.filter(({ method, headers }) => method === 'GET' && headers['if-match'] !== undefined)
    assert.ok(ranges.length >= 1 && ranges.every(({ headers }) => headers['if-match'] === '"of-the-store"'))
  })

  it('never sends all bytes of a file with another digest', { timeout: 30_000 }, async () => {
    const { front } = await hub(randomBytes(3 * MIB), sha256('other'))
    const mirror = await mirrorOf(front, CDN)
    const { isCut, bytes } = await get(mirror)
    assert.ok(isCut && bytes.length < 3 * MIB, `${bytes.length} bytes`)
    const error = errorOf(await get(mirror))
    assert.equal(error.status, 502)
    assert.match(error.message, /do not have the digest/)
  })

  it('passes a file through whose ETag only looks like a digest', { timeout: 30_000 }, async () => {
    const bytes = randomBytes(3 * MIB)
    const server = await startServer((request, response) => sendBytes(request, response, bytes, { etag: `"${sha256('other')}"` }))
    const mirror = await mirrorOf(server)
    assert.ok((await get(mirror)).isCut)
    const next = await get(mirror)
    assert.deepEqual([next.status, next.headers['watchfire-source']], [200, 'origin'])
    assert.ok(next.bytes.equals(bytes))
  })

  it('does not follow a redirect to its own host', { timeout: 30_000 }, async () => {
    const { front, store } = await hub(randomBytes(1000))
    const mirror = await mirrorOf(front)
    for (const headers of [{}, { authorization: 'Bearer a' }]) {
      const error = errorOf(await get(mirror, { headers }))
      assert.equal(error.status, 502)
      assert.match(error.message, /redirects to 127\.0\.0\.1.*--allow-redirect/)
    }
    assert.deepEqual(store.requests, [])
  })

  it('passes private answers through, and credentials to the named host only', { timeout: 30_000 }, async () => {
    const bytes = randomBytes(MIB + 1)
    const { front, store } = await hub(bytes)
    const mirror = await mirrorOf(front, CDN)
    for (const headers of [{ authorization: 'Bearer secret' }, { cookie: 'a=secret' }]) {
      const answer = await get(mirror, { headers: { ...headers, range: 'bytes=5-9' } })
      assert.equal(answer.status, 206)
      assert.equal(answer.headers['watchfire-source'], 'origin')
      assert.equal(answer.headers['x-repo-commit'], 'c0ffee')
      assert.ok(answer.bytes.equals(bytes.subarray(5, 10)))
    }
    assert.deepEqual(
      front.requests.map(({ headers }) => headers.authorization ?? headers.cookie),
      ['Bearer secret', 'a=secret'],
    )
    assert.deepEqual(
      store.requests.map(({ headers }) => [headers.authorization, headers.cookie]),
      [
        [undefined, undefined],
        [undefined, undefined],
      ],
    )
    const head = await get(mirror, { method: 'HEAD', headers: { authorization: 'Bearer secret' } })
    assert.deepEqual(
      [head.status, head.headers['content-length'], head.headers['x-linked-etag']],
      [200, `${bytes.length}`, `"${sha256(bytes)}"`],
    )
    assert.ok(store.requests.every(({ headers }) => headers.authorization === undefined))
    const { files, store: stored } = await (await fetch(`http://127.0.0.1:${mirror.port}/status`)).json()
    assert.deepEqual([files, stored.blobs], [[], 0])
  })

  it('stores no answer without a version, or for one client', { timeout: 30_000 }, async () => {
    const bytes = Buffer.from('{"a":1}')
    const kinds = [
      {},
      { etag: 'W/"a"' },
      { etag: '"a"', 'cache-control': 'private' },
      { etag: '"a"', 'cache-control': 'no-store' },
      { etag: '"a"', 'set-cookie': 'a=b' },
      { etag: '"a"', vary: 'Accept' },
    ]
    const server = await startServer((request, response) => sendBytes(request, response, bytes, kinds[Number(request.url.slice(1))]))
    const mirror = await mirrorOf(server)
    for (const index of kinds.keys()) {
      for (let time = 0; time < 2; time++) {
        const answer = await requestExactly(mirror, `/proxy/models.example/${index}`)
        assert.equal(String(answer.bytes), String(bytes))
        assert.equal(answer.headers['watchfire-source'], 'origin')
      }
      const gets = server.requests.filter(({ method, url }) => method === 'GET' && url === `/${index}`)
      assert.equal(gets.length, 2, JSON.stringify(kinds[index]))
    }
  })

  it('cuts an answer when the file changes in the middle, and serves the new version next', { timeout: 30_000 }, async () => {
    const versions = [randomBytes(8 * MIB), randomBytes(8 * MIB)]
    let current = 0
    const server = await startServer((request, response) => {
      const headers = { etag: `"${current}"` }
      if (request.method === 'HEAD' || current === 1) return sendBytes(request, response, versions[current], headers)
      // The first version breaks off, and is replaced.
      response.writeHead(200, { ...headers, 'accept-ranges': 'bytes', 'content-length': 8 * MIB })
      current = 1
      response.write(versions[0].subarray(0, 3 * MIB + 5), () => response.destroy())
    })
    const mirror = await mirrorOf(server, ['--connections-per-blob', '1'])
    const { status, isCut, bytes } = await get(mirror)
    assert.deepEqual([status, isCut], [200, true])
    assert.ok(bytes.length < 8 * MIB && bytes.equals(versions[0].subarray(0, bytes.length)), 'no byte is of the new version')
    assert.match(mirror.stderr, /the file changed at models\.example while it was fetched/)
    const next = await get(mirror)
    assert.equal(next.headers.etag, '"1"')
    assert.ok(next.bytes.equals(versions[1]))
  })

  it('refuses bytes of a server that names a wrong length', { timeout: 30_000 }, async () => {
    const bytes = randomBytes(1000)
    const server = await startServer((request, response) => {
      if (request.method !== 'HEAD') return sendBytes(request, response, bytes, { etag: '"a"' })
      response.writeHead(200, { etag: '"a"', 'content-length': 5000 }).end()
    })
    const error = errorOf(await get(await mirrorOf(server)))
    assert.equal(error.status, 502)
    assert.match(error.message, /the file has 1000 bytes, and the server named 5000 before/)
  })

  it('answers 504 when a server sends nothing', { timeout: 40_000 }, async () => {
    const server = await startServer(() => {})
    const error = errorOf(await get(await mirrorOf(server)))
    assert.deepEqual([error.status, error.code], [504, 'TIMEOUT'])
    assert.match(error.message, /models\.example sent no byte within 20s/)
  })
})
