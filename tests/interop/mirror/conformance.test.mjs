// The pulls of the OCI distribution specification, one request at a time, in front of a real registry.

import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import http from 'node:http'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'

import { Registry, digestOf, makeImage, push } from '../lib/registry.mjs'
import { startMirror } from '../lib/server.mjs'

const MIB = 1 << 20
const MANIFEST = 'application/vnd.oci.image.manifest.v1+json'
const INDEX = 'application/vnd.oci.image.index.v1+json'

let folder
let registry
let mirror
let image

before(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'mirror-requests-'))
  registry = await Registry.start(path.join(folder, 'registry'))
  image = makeImage([3 * MIB + 17, 1000])
  await push(registry, 'team/app', 'v1', image)
  await push(registry, 'team/app', 'v2', image)
  await push(registry, 'team/other', 'v1', makeImage([10]))
  mirror = await startMirror(path.join(folder, 'store'), ['--upstream', `registry.example:8443=${registry.url}`])
})

after(async () => {
  await mirror?.stop()
  await registry?.stop()
  rmSync(folder, { recursive: true, force: true })
})

/** Sends a request, and returns its whole response. */
function send(target, { method = 'GET', headers = {} } = {}) {
  return new Promise((resolve, reject) => {
    const request = http.request({ host: '127.0.0.1', port: mirror.port, path: target, method, headers, agent: false })
    request.once('error', reject)
    request.once('response', (response) => {
      const chunks = []
      response.on('data', (chunk) => chunks.push(chunk))
      response.once('error', reject)
      response.once('end', () => resolve({ status: response.statusCode, headers: response.headers, body: Buffer.concat(chunks) }))
    })
    request.end()
  })
}

function assertError({ status, headers, body }, expected, code) {
  assert.equal(status, expected, body.toString())
  assert.equal(headers['content-type'], 'application/json')
  const { errors } = JSON.parse(body)
  assert.equal(errors[0].code, code)
  assert.ok(errors[0].message.length > 0)
}

describe('manifests', () => {
  it('has its bytes, type and digest, by tag and by digest', async () => {
    for (const reference of ['v1', image.digest]) {
      const { status, headers, body } = await send(`/v2/team/app/manifests/${reference}`, { headers: { accept: MANIFEST } })
      assert.equal(status, 200)
      assert.deepEqual(body, image.manifest)
      assert.equal(headers['content-type'], MANIFEST)
      assert.equal(headers['docker-content-digest'], image.digest)
      assert.equal(headers['content-length'], String(image.manifest.length))
    }
  })

  it('has the same headers and no body after HEAD', async () => {
    const { status, headers, body } = await send('/v2/team/app/manifests/v1', { method: 'HEAD' })
    assert.equal(status, 200)
    assert.equal(body.length, 0)
    assert.equal(headers['docker-content-digest'], image.digest)
    assert.equal(headers['content-length'], String(image.manifest.length))
  })

  it('merges several Accept headers', async () => {
    const headers = { accept: [INDEX, MANIFEST, 'application/vnd.docker.distribution.manifest.v2+json'] }
    assert.equal((await send('/v2/team/other/manifests/v1', { headers })).status, 200)
  })

  it('tells whether the answer is from the registry or from the store', async () => {
    await send('/v2/team/app/manifests/v2')
    const again = await send('/v2/team/app/manifests/v2')
    assert.equal(again.headers['watchfire-source'], 'store')
    assert.match(again.headers.age, /^\d+$/)
  })

  it('is unknown if the registry does not have it', async () => {
    assertError(await send('/v2/team/app/manifests/none'), 404, 'MANIFEST_UNKNOWN')
    assertError(await send(`/v2/team/app/manifests/${digestOf('none')}`), 404, 'MANIFEST_UNKNOWN')
    assertError(await send('/v2/no/such/manifests/v1'), 404, 'MANIFEST_UNKNOWN')
  })
})

describe('blobs', () => {
  it('has its bytes and digest', async () => {
    for (const blob of image.blobs) {
      const { status, headers, body } = await send(`/v2/team/app/blobs/${digestOf(blob)}`)
      assert.equal(status, 200)
      assert.ok(body.equals(blob))
      assert.equal(headers['docker-content-digest'], digestOf(blob))
      assert.equal(headers['accept-ranges'], 'bytes')
    }
  })

  it('is not fetched for HEAD', async () => {
    const fresh = makeImage([2 * MIB])
    await push(registry, 'team/app', 'fresh', fresh)
    const [layer] = fresh.layers
    const { status, headers, body } = await send(`/v2/team/app/blobs/${digestOf(layer)}`, { method: 'HEAD' })
    assert.deepEqual([status, headers['content-length'], body.length], [200, String(layer.length), 0])
    assert.equal(registry.requests('GET', new RegExp(digestOf(layer))), 0)
  })

  it('is fetched once, however many clients read it at once', async () => {
    const fresh = makeImage([5 * MIB])
    await push(registry, 'team/app', 'once', fresh)
    const [layer] = fresh.layers
    const answers = await Promise.all(Array.from({ length: 100 }, () => send(`/v2/team/app/blobs/${digestOf(layer)}`)))
    assert.ok(answers.every(({ status, body }) => status === 200 && body.equals(layer)))
    assert.equal(registry.requests('GET', new RegExp(digestOf(layer))), 1)
  })

  it('has every form of range', async () => {
    const [layer] = image.layers
    const size = layer.length
    for (const [range, start, end] of [
      ['bytes=0-0', 0, 0],
      ['bytes=100-1048700', 100, 1048700],
      ['bytes=1048576-2097151', 1048576, 2097151],
      [`bytes=${size - 5}-`, size - 5, size - 1],
      ['bytes=-7', size - 7, size - 1],
      [`bytes=-${size + 10}`, 0, size - 1],
      [`bytes=10-${size * 2}`, 10, size - 1],
      ['bytes=0-', 0, size - 1],
    ]) {
      const { status, headers, body } = await send(`/v2/team/app/blobs/${digestOf(layer)}`, { headers: { range } })
      assert.equal(status, 206, range)
      assert.equal(headers['content-range'], `bytes ${start}-${end}/${size}`)
      assert.equal(headers['content-length'], String(end - start + 1))
      assert.ok(body.equals(layer.subarray(start, end + 1)), range)
    }
  })

  it('refuses ranges without a byte, and ignores what it does not understand', async () => {
    const [layer] = image.layers
    const target = `/v2/team/app/blobs/${digestOf(layer)}`
    for (const range of [`bytes=${layer.length}-`, 'bytes=5-4', 'bytes=-0', 'bytes=99999999999999999999-']) {
      const answer = await send(target, { headers: { range } })
      assertError(answer, 416, 'RANGE_INVALID')
      assert.equal(answer.headers['content-range'], `bytes */${layer.length}`)
    }
    const many = `bytes=${Array.from({ length: 1500 }, (_, index) => `${index}-${index}`).join(',')}`
    for (const range of ['lines=1-2', 'bytes=a-b', 'bytes=0-1,5-6', many]) {
      const { status, body } = await send(target, { headers: { range } })
      assert.equal(status, 200, range.slice(0, 20))
      assert.ok(body.equals(layer))
    }
  })

  it('is not compressed', async () => {
    const [layer] = image.layers
    const { headers, body } = await send(`/v2/team/app/blobs/${digestOf(layer)}`, { headers: { 'accept-encoding': 'gzip' } })
    assert.equal(headers['content-encoding'], undefined)
    assert.ok(body.equals(layer))
  })

  it('is not served under a repository that does not have it', async () => {
    const [layer] = image.layers
    assert.equal((await send(`/v2/team/app/blobs/${digestOf(layer)}`)).status, 200)
    assertError(await send(`/v2/team/other/blobs/${digestOf(layer)}`), 404, 'BLOB_UNKNOWN')
  })

  it('is unknown if the registry does not have it', async () => {
    assertError(await send(`/v2/team/app/blobs/${digestOf('none')}`), 404, 'BLOB_UNKNOWN')
  })
})

describe('other requests', () => {
  it('says that the server speaks the protocol', async () => {
    for (const target of ['/v2/', '/v2']) {
      const { status, headers } = await send(target)
      assert.deepEqual([status, headers['docker-distribution-api-version']], [200, 'registry/2.0'])
    }
  })

  it('lists the tags of the registry', async () => {
    const { status, headers, body } = await send('/v2/team/other/tags/list')
    assert.deepEqual([status, headers['watchfire-source']], [200, 'registry'])
    assert.deepEqual(JSON.parse(body), { name: 'team/other', tags: ['v1'] })
  })

  it('passes referrers on, which this registry does not have', async () => {
    assertError(await send(`/v2/team/app/referrers/${image.digest}`), 404, 'NAME_UNKNOWN')
  })

  it('finds the registry that a request names', async () => {
    const encoded = await send('/v2/team/app/manifests/v1?ns=registry.example%3A8443')
    assert.equal(encoded.status, 200)
    assert.equal(encoded.headers['oci-namespace'], 'registry.example:8443')
    assertError(await send('/v2/team/app/manifests/v1?ns=unknown.example'), 404, 'NAME_UNKNOWN')
  })

  it('refuses names, tags and digests outside the grammar', async () => {
    for (const [target, code] of [
      ['/v2/TEAM/manifests/v1', 'NAME_INVALID'],
      ['/v2/team//app/manifests/v1', 'NAME_INVALID'],
      [`/v2/${'a/'.repeat(130)}a/manifests/v1`, 'NAME_INVALID'],
      ['/v2/team/app/manifests/.v1', 'TAG_INVALID'],
      [`/v2/team/app/manifests/${'v'.repeat(129)}`, 'TAG_INVALID'],
      ['/v2/team/app/manifests/sha256:00', 'DIGEST_INVALID'],
      [`/v2/team/app/blobs/sha256:${'A'.repeat(64)}`, 'DIGEST_INVALID'],
      [`/v2/team/app/blobs/md5:${'a'.repeat(32)}`, 'DIGEST_INVALID'],
      [`/v2/team/app/referrers/latest`, 'DIGEST_INVALID'],
    ]) {
      assertError(await send(target), 400, code)
    }
    for (const target of ['/', '/v1/', '/v2/team/app', '/v2/team/app/blobs/uploads/1']) {
      assert.ok([400, 404].includes((await send(target)).status), target)
    }
  })

  it('refuses pushes and deletions', async () => {
    for (const [method, target] of [
      ['POST', '/v2/team/app/blobs/uploads/'],
      ['PUT', '/v2/team/app/manifests/v9'],
      ['DELETE', `/v2/team/app/manifests/${image.digest}`],
    ]) {
      const answer = await send(target, { method })
      assert.ok([404, 405].includes(answer.status), `${method} ${target}: ${answer.status}`)
    }
    assert.equal((await send('/v2/team/app/manifests/v1', { method: 'PUT' })).headers.allow, 'GET, HEAD')
  })
})
