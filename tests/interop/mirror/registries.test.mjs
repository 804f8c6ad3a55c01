// Registries of other makers behind the mirror, and content that is not a container image.

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { afterEach, before, describe, it } from 'node:test'

import { newFolder } from '../lib/folders.mjs'
import { buildMirrorTools, mirrorTools, whyNoMirrorTools } from '../lib/mirror-tools.mjs'
import { Olareg } from '../lib/olareg.mjs'
import { run } from '../lib/program.mjs'
import { Registry, makeImage, push } from '../lib/registry.mjs'
import { startMirror } from '../lib/server.mjs'
import { TokenServer } from '../lib/token-server.mjs'

const MIB = 1 << 20
const USER = { user: 'ann', password: 'secret', refreshToken: 'refresh-1' }
const HELM_CONFIG = 'application/vnd.cncf.helm.config.v1+json'
const HELM_CHART = 'application/vnd.cncf.helm.chart.content.v1.tar+gzip'
const BILL_OF_MATERIALS = 'application/spdx+json'
const SIGNATURE = 'application/vnd.example.signature.v1+json'

const folder = newFolder()
let registry
let tokens
let mirror
let names = 0

before(async () => {
  if (!whyNoMirrorTools) await buildMirrorTools()
})

afterEach(async () => {
  await mirror?.stop()
  await registry?.stop()
  await tokens?.stop()
  mirror = registry = tokens = undefined
})

const newPath = (kind) => path.join(folder, `${kind}-${names++}`)
const startVersion3 = (options) => Registry.start(newPath('registry'), { program: mirrorTools.registry3, ...options })

async function mirrorOf(upstream, args = []) {
  mirror = await startMirror(newPath('store'), ['--upstream', upstream.url, ...args])
}

/** Verifies every digest of an image that is pulled through the mirror. */
const validate = (image) => run(mirrorTools.crane, ['validate', '--insecure', '--remote', `127.0.0.1:${mirror.port}/${image}`])

describe('a registry of version 3', { skip: whyNoMirrorTools }, () => {
  it('is mirrored', async () => {
    registry = await startVersion3()
    await mirrorOf(registry)
    await push(registry, 'team/app', 'v1', makeImage([20 * MIB, 1000]))
    await validate('team/app:v1')
    const tags = await (await fetch(mirror.http('/v2/team/app/tags/list'))).json()
    assert.deepEqual(tags, { name: 'team/app', tags: ['v1'] })
  })

  it('is mirrored with the tokens of its token server', async () => {
    tokens = await TokenServer.start(folder, USER)
    registry = await startVersion3({ auth: tokens.configuration })
    await push(registry, 'team/app', 'v1', makeImage([3 * MIB, 1000]), { authorization: `Bearer ${tokens.token('team/app')}` })
    const file = newPath('config.json')
    const auth = Buffer.from(`${USER.user}:${USER.password}`).toString('base64')
    writeFileSync(file, JSON.stringify({ auths: { [`127.0.0.1:${registry.port}`]: { auth } } }))
    await mirrorOf(registry, ['--allow-redirect', '127.0.0.0/8', '--credentials', file])
    await validate('team/app:v1')
    assert.deepEqual(tokens.requests, [{ method: 'GET', credential: 'password', scope: 'repository:team/app:pull' }])
    await mirror.stop()

    await mirrorOf(registry, ['--allow-redirect', '127.0.0.0/8'])
    assert.equal((await fetch(mirror.http('/v2/team/app/manifests/v1'))).status, 401)
  })
})

/** regctl, which uses these servers without TLS. */
async function regctl(...args) {
  const file = newPath('regctl.json')
  const hosts = [mirror.port, registry.port].map((port) => [`127.0.0.1:${port}`, { tls: 'disabled' }])
  writeFileSync(file, JSON.stringify({ hosts: Object.fromEntries(hosts) }))
  const { stdout } = await run(mirrorTools.regctl, args, {
    env: { ...process.env, REGCTL_CONFIG: file },
    encoding: 'buffer',
    maxBuffer: 64 * MIB,
  })
  return stdout
}

/** Pushes files to the registry as an artifact. */
async function pushArtifact(name, contents, options) {
  const files = contents.flatMap(({ type, bytes }) => {
    const file = newPath('file')
    writeFileSync(file, bytes)
    return ['--file', file, '--file-media-type', type]
  })
  await regctl('artifact', 'put', ...options, ...files, name)
}

const inMirror = (name) => `127.0.0.1:${mirror.port}/${name}`
const inRegistry = (name) => `127.0.0.1:${registry.port}/${name}`

for (const [kind, startRegistry] of Object.entries({
  'with the referrers API': () => Olareg.start(),
  'without the referrers API': () => startVersion3(),
})) {
  describe(`a registry ${kind}`, { skip: whyNoMirrorTools }, () => {
    it('gives a Helm chart to a client of the mirror', async () => {
      registry = await startRegistry()
      await mirrorOf(registry)
      const chart = randomBytes(2 * MIB)
      const config = newPath('config')
      writeFileSync(config, JSON.stringify({ name: 'app', version: '1.2.3', apiVersion: 'v2' }))
      const types = ['--config-type', HELM_CONFIG, '--config-file', config]
      await pushArtifact(inRegistry('charts/app:1.2.3'), [{ type: HELM_CHART, bytes: chart }], types)

      const manifest = JSON.parse(String(await regctl('manifest', 'get', '--format', 'raw-body', inMirror('charts/app:1.2.3'))))
      assert.deepEqual([manifest.config.mediaType, manifest.layers[0].mediaType], [HELM_CONFIG, HELM_CHART])
      assert.deepEqual(await regctl('artifact', 'get', inMirror('charts/app:1.2.3')), chart)
      assert.deepEqual(await regctl('artifact', 'get', '--config', inMirror('charts/app:1.2.3')), readFileSync(config))
    })

    it('gives the artifacts that refer to an image', async () => {
      registry = await startRegistry()
      await mirrorOf(registry)
      await push(registry, 'team/app', 'v1', makeImage([1000]))
      const subject = ['--subject', inRegistry('team/app:v1'), '--artifact-type']
      const materials = Buffer.from('{"spdxVersion":"SPDX-2.3"}')
      await pushArtifact(inRegistry('team/app:sbom'), [{ type: BILL_OF_MATERIALS, bytes: materials }], [...subject, BILL_OF_MATERIALS])
      await pushArtifact(inRegistry('team/app:signature'), [{ type: SIGNATURE, bytes: Buffer.from('{}') }], [...subject, SIGNATURE])

      const listed = JSON.parse(String(await regctl('artifact', 'list', '--format', '{{json .Descriptors}}', inMirror('team/app:v1'))))
      assert.deepEqual(listed.map(({ artifactType }) => artifactType).sort(), [BILL_OF_MATERIALS, SIGNATURE].sort())
      const filter = ['--subject', inMirror('team/app:v1'), '--filter-artifact-type', BILL_OF_MATERIALS]
      assert.deepEqual(await regctl('artifact', 'get', ...filter), materials)
    })
  })
}
