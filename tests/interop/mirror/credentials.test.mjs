// Private repositories of a registry with token authentication.

import assert from 'node:assert/strict'
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, afterEach, before, beforeEach, describe, it } from 'node:test'

import { newFolder } from '../lib/folders.mjs'
import { FaultyRegistry, Registry, digestOf, makeImage, push } from '../lib/registry.mjs'
import { startMirror } from '../lib/server.mjs'
import { TokenServer } from '../lib/token-server.mjs'

const USER = { user: 'ann', password: 'se:cret', refreshToken: 'refresh-1' }
const LOOPBACK = ['--allow-redirect', '127.0.0.0/8']

const folder = newFolder()
let tokens
let registry
let mirror
let image
let open
let stores = 0

before(async () => {
  tokens = await TokenServer.start(folder, USER)
  registry = await Registry.start(path.join(folder, 'registry'), { auth: tokens.configuration })
  image = makeImage([1000])
  open = makeImage([2000])
  await push(registry, 'team/app', 'v1', image, { authorization: `Bearer ${tokens.token('team/app')}` })
  await push(registry, 'public/app', 'v1', open, { authorization: `Bearer ${tokens.token('public/app')}` })
})

after(async () => {
  await registry?.stop()
  await tokens?.stop()
})

beforeEach(() => {
  tokens.requests.length = 0
  tokens.expiresIn = 300
})

afterEach(async () => {
  await mirror?.stop()
  mirror = undefined
})

async function start(args, upstream = registry) {
  mirror = await startMirror(path.join(folder, `store-${stores++}`), ['--upstream', upstream.url, ...args])
}

/** Writes a Docker configuration; returns the option that names it. */
function credentials(content) {
  const file = path.join(folder, `config-${stores++}.json`)
  writeFileSync(file, JSON.stringify(content))
  return ['--credentials', file]
}

const authOf = (text) => ({ auths: { [`127.0.0.1:${registry.port}`]: { auth: Buffer.from(text).toString('base64') } } })
const get = (target) => fetch(mirror.http(target))
const manifest = (repository) => get(`/v2/${repository}/manifests/v1`)
const layer = (repository, of) => get(`/v2/${repository}/blobs/${digestOf(of.layers[0])}`)

describe('a registry with tokens', () => {
  it('gives a private image to a mirror with the password, with one token for all requests', async () => {
    await start([...LOOPBACK, ...credentials(authOf('ann:se:cret'))])
    assert.equal((await manifest('team/app')).status, 200)
    const answer = await layer('team/app', image)
    assert.deepEqual([answer.status, Buffer.from(await answer.arrayBuffer())], [200, image.layers[0]])
    assert.deepEqual(tokens.requests, [{ method: 'GET', credential: 'password', scope: 'repository:team/app:pull' }])
  })

  it('gives it for a refresh token', async () => {
    await start([...LOOPBACK, ...credentials({ auths: { [`127.0.0.1:${registry.port}`]: { identitytoken: 'refresh-1' } } })])
    assert.equal((await manifest('team/app')).status, 200)
    assert.deepEqual(tokens.requests, [{ method: 'POST', credential: 'refresh token', scope: 'repository:team/app:pull' }])
  })

  it('gives it for the password of a credential helper', async () => {
    const bin = path.join(folder, 'bin')
    mkdirSync(bin, { recursive: true })
    const helper = path.join(bin, 'docker-credential-test')
    writeFileSync(helper, '#!/bin/sh\nread -r server\nprintf \'{"ServerURL":"%s","Username":"ann","Secret":"se:cret"}\' "$server"\n')
    chmodSync(helper, 0o755)
    const searched = process.env.PATH
    process.env.PATH = `${bin}:${searched}`
    try {
      await start([...LOOPBACK, ...credentials({ credHelpers: { [`127.0.0.1:${registry.port}`]: 'test' } })])
    } finally {
      process.env.PATH = searched
    }
    assert.equal((await manifest('team/app')).status, 200)
    assert.equal(tokens.requests[0].credential, 'password')
  })

  it('gives a public image to a mirror without credentials, and not a private one', async () => {
    await start(LOOPBACK)
    assert.equal((await manifest('public/app')).status, 200)
    assert.equal((await layer('public/app', open)).status, 200)
    const refused = await manifest('team/app')
    assert.equal(refused.status, 401)
    const [error] = (await refused.json()).errors
    assert.equal(error.code, 'UNAUTHORIZED')
    assert.match(error.message, /--credentials/)
  })

  it('refuses a wrong password', async () => {
    await start([...LOOPBACK, ...credentials(authOf('ann:wrong'))])
    assert.equal((await manifest('team/app')).status, 401)
  })

  it('does not give a private blob through a public repository', async () => {
    await start([...LOOPBACK, ...credentials(authOf('ann:se:cret'))])
    assert.equal((await manifest('team/app')).status, 200)
    assert.equal((await layer('team/app', image)).status, 200)
    assert.equal((await layer('public/app', image)).status, 404)
  })

  it('is asked for a new token when the old one has expired', async () => {
    tokens.expiresIn = 1
    await start([...LOOPBACK, '--tag-ttl', '0s', ...credentials(authOf('ann:se:cret'))])
    assert.equal((await manifest('team/app')).status, 200)
    const count = tokens.requests.length
    assert.equal((await manifest('team/app')).status, 200)
    assert.ok(tokens.requests.length > count)
  })

  it('does not send the mirror to a token server in its own network', async () => {
    await start(credentials(authOf('ann:se:cret')))
    const answer = await manifest('team/app')
    assert.equal(answer.status, 502)
    assert.match((await answer.json()).errors[0].message, /127\.0\.0\.1.*--allow-redirect/)
    assert.deepEqual(tokens.requests, [])
  })

  it('does not get its token sent to the servers to which it redirects', async () => {
    const store = await FaultyRegistry.start(registry)
    const faulty = await FaultyRegistry.start(registry)
    try {
      store.answer = (_request, response) => {
        response.writeHead(200, { 'content-length': image.layers[0].length }).end(image.layers[0])
        return true
      }
      faulty.answer = (request, response) => {
        if (!request.url.includes('/blobs/') || request.method === 'HEAD') return false
        response.writeHead(307, { location: `${store.url}/stored` }).end()
        return true
      }
      const known = { auths: { [`127.0.0.1:${faulty.port}`]: { auth: Buffer.from('ann:se:cret').toString('base64') } } }
      await start([...LOOPBACK, ...credentials(known)], faulty)
      assert.equal((await manifest('team/app')).status, 200)
      assert.equal((await layer('team/app', image)).status, 200)
      assert.equal(store.requests.length, 1)
      assert.equal(store.requests[0].headers.authorization, undefined)
    } finally {
      await faulty.stop()
      await store.stop()
    }
  })

  it('prevents the start with a credentials file that is not valid, and names the file', async () => {
    const file = path.join(folder, 'broken.json')
    writeFileSync(file, '{')
    await assert.rejects(start(['--credentials', file]), /broken\.json.*not a Docker config\.json/)
  })
})
