// The pulls of the OCI distribution specification, one request at a time, in front of a real registry. The first part is a
// table of requests and answers. The second part is what the mirror promises in addition.

import assert from 'node:assert/strict'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'

import { requestExactly } from '../lib/exact-request.mjs'
import { newFolder } from '../lib/folders.mjs'
import { Registry, digestOf, makeImage, push } from '../lib/registry.mjs'
import { startMirror } from '../lib/server.mjs'

const MIB = 1 << 20
const MANIFEST = 'application/vnd.oci.image.manifest.v1+json'
const INDEX = 'application/vnd.oci.image.index.v1+json'
const DOCKER = 'application/vnd.docker.distribution.manifest.v2+json'

/** Two layers, of which the first is longer than two blocks of the mirror. */
const image = makeImage([2 * MIB + 17, 1000])
const [layer] = image.layers
const size = layer.length
const unknown = digestOf('unknown')

const manifest = (reference, repository = 'team/app') => `/v2/${repository}/manifests/${reference}`
const blob = (digest, repository = 'team/app') => `/v2/${repository}/blobs/${digest}`
const one = blob(digestOf(layer))

const folder = newFolder()
let registry
let mirror

before(async () => {
  registry = await Registry.start(path.join(folder, 'registry'))
  await push(registry, 'team/app', 'v1', image)
  await push(registry, 'team/app', 'v2', image)
  await push(registry, 'team/other', 'v1', makeImage([10]))
  mirror = await startMirror(path.join(folder, 'store'), ['--upstream', `registry.example:8443=${registry.url}`])
})

after(async () => {
  await mirror?.stop()
  await registry?.stop()
})

/** Sends a request, and returns its whole response. */
async function send(target, options) {
  const answer = await requestExactly(mirror, target, options)
  assert.ok(!answer.isCut)
  return answer
}

/** Compares a response with the parts that are expected. `code` is that of an error in the form of the specification. */
function assertAnswer(answer, { status, headers = {}, body, code }) {
  assert.equal(answer.status, status, answer.bytes.subarray(0, 500).toString())
  assert.equal(answer.headers['docker-distribution-api-version'], 'registry/2.0')
  for (const [name, value] of Object.entries(headers)) assert.equal(answer.headers[name], value, name)
  if (body !== undefined) assert.ok(answer.bytes.equals(body), 'the body is another')
  if (code === undefined) return
  assert.equal(answer.headers['content-type'], 'application/json')
  const [error] = JSON.parse(answer.bytes).errors
  assert.equal(error.code, code)
  assert.ok(error.message.length > 0)
}

const NOTHING = Buffer.alloc(0)
const describedManifest = {
  'content-type': MANIFEST,
  'content-length': String(image.manifest.length),
  'docker-content-digest': image.digest,
}
const describedBlob = { 'content-length': String(size), 'docker-content-digest': digestOf(layer), 'accept-ranges': 'bytes' }

/** The answer to a range from byte `start` to `end`. */
const part = (start, end) => ({
  status: 206,
  headers: { 'content-range': `bytes ${start}-${end}/${size}`, 'content-length': String(end - start + 1) },
  body: layer.subarray(start, end + 1),
})
const whole = { status: 200, headers: describedBlob, body: layer }
const noPart = { status: 416, headers: { 'content-range': `bytes */${size}` }, code: 'RANGE_INVALID' }
const invalid = (code) => ({ status: 400, code })
const readOnly = { status: 405, headers: { allow: 'GET, HEAD' }, code: 'UNSUPPORTED' }
const missing = (code) => ({ status: 404, code })

/**
 * A name, a request, and the expected answer. The request is a path, or a path with a method and headers. The conformance tests of
 * the specification (tests/outside/oci) have its other requests, and crates/mirror/src/oci each invalid name, tag, digest and range.
 */
const table = {
  'the server': [
    ['speaks the protocol without the last slash', '/v2', { status: 200 }],
    ['does not serve another version', '/v1/', missing('NAME_UNKNOWN')],
  ],
  'a manifest': [
    ['has its bytes, type and digest by tag', manifest('v1'), { status: 200, headers: describedManifest, body: image.manifest }],
    ['has the same headers for HEAD', [manifest('v1'), { method: 'HEAD' }], { status: 200, headers: describedManifest, body: NOTHING }],
    [
      'is sent for the second of several Accept headers',
      [manifest('v1', 'team/other'), { headers: { accept: [INDEX, MANIFEST, DOCKER] } }],
      { status: 200 },
    ],
    [
      'is sent whole for a range, as containerd 2 asks',
      [manifest('v1'), { headers: { range: 'bytes=0-' } }],
      { status: 200, body: image.manifest },
    ],
    ['is unknown in a repository that does not exist', manifest('v1', 'no/such'), missing('MANIFEST_UNKNOWN')],
  ],
  'a blob': [
    ['has its bytes and digest', one, whole],
    ['has the same headers for HEAD', [one, { method: 'HEAD' }], { status: 200, headers: describedBlob, body: NOTHING }],
    [
      'is not compressed',
      [one, { headers: { 'accept-encoding': 'gzip' } }],
      { ...whole, headers: { ...describedBlob, 'content-encoding': undefined } },
    ],
    ['is unknown for HEAD, without a body', [blob(unknown), { method: 'HEAD' }], { status: 404, body: NOTHING }],
    ['is unknown in a repository that does not have it', blob(digestOf(layer), 'team/other'), missing('BLOB_UNKNOWN')],
  ],
  'a range of a blob': Object.entries({
    'bytes=100-1048700': part(100, 1048700),
    [`bytes=${size}-`]: noPart,
    // Several ranges are one part, with the bytes between them.
    'bytes=0-1,5-6': part(0, 6),
  }).map(([range, expected]) => [`${range} is ${expected.status}`, [one, { headers: { range } }], expected]),
  'a name, tag or digest': [
    ['has no part of dots in a name', manifest('v1', 'team/%2e%2e/app'), invalid('NAME_INVALID')],
    ['has no dot at the start of a tag', manifest('.v1'), invalid('TAG_INVALID')],
    ['has a digest for referrers, not a tag', '/v2/team/app/referrers/v1', invalid('DIGEST_INVALID')],
  ],
  'another registry': [
    [
      'is named in the query, with a port',
      `${manifest('v1')}?ns=registry.example%3A8443`,
      { status: 200, headers: { 'oci-namespace': 'registry.example:8443' } },
    ],
    ['is unknown if the mirror does not have it', `${manifest('v1')}?ns=unknown.example`, missing('NAME_UNKNOWN')],
  ],
  'a change': [['cannot delete a blob', [one, { method: 'DELETE' }], readOnly]],
}

for (const [subject, cases] of Object.entries(/** @type {Record<string, any[][]>} */ (table))) {
  describe(subject, () => {
    for (const [name, request, expected] of cases) {
      it(name, async () => {
        const [target, options] = [request].flat()
        assertAnswer(await send(target, options), expected)
      })
    }
  })
}

describe('the mirror', () => {
  it('tells whether the answer is from the registry or from the store', async () => {
    assert.equal((await send(manifest('v2'))).headers['watchfire-source'], 'registry')
    const again = await send(manifest('v2'))
    assert.equal(again.headers['watchfire-source'], 'store')
    assert.match(again.headers.age, /^\d+$/)
  })

  it('does not fetch a blob for HEAD', async () => {
    const fresh = makeImage([2 * MIB])
    await push(registry, 'team/app', 'fresh', fresh)
    const target = blob(digestOf(fresh.layers[0]))
    const headers = { 'content-length': String(fresh.layers[0].length) }
    assertAnswer(await send(target, { method: 'HEAD' }), { status: 200, headers, body: NOTHING, code: undefined })
    assert.equal(registry.requests('GET', new RegExp(digestOf(fresh.layers[0]))), 0)
  })
})
