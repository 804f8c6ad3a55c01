// The files in deploy/: their settings are settings of the server, and they leave it time to drain.

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync, readdirSync } from 'node:fs'
import path from 'node:path'
import { describe, it } from 'node:test'

import { parse as parseToml } from 'smol-toml'
import { parse as parseYaml } from 'yaml'

import { REPOSITORY, endingAfterAll, unpackArchive, version } from './lib/packed.mjs'

const DEPLOY = path.join(REPOSITORY, 'deploy')
/** How long the server drains unless `server.drain_period` is set, and what its end may take beyond that. */
const DRAIN_S = 10
const END_S = 10
const program = path.join(unpackArchive(endingAfterAll()), 'bin/watchfire')

const read = (name) => readFileSync(path.join(DEPLOY, name), 'utf8')
const seconds = (text) => Number(/^(\d+)s?$/.exec(text)[1])

/** The container's variables, image and time to stop, per file. */
const containers = {
  'compose.yaml': () => ofCompose('compose.yaml'),
  'compose.caddy.yaml': () => ofCompose('compose.caddy.yaml'),
  'kubernetes/deployment.yaml': () => {
    const { spec } = parseYaml(read('kubernetes/deployment.yaml')).spec.template
    const [container] = spec.containers
    const { images } = parseYaml(read('kubernetes/kustomization.yaml'))
    return {
      environment: Object.fromEntries(container.env.map(({ name, value }) => [name, value])),
      image: `${images.find(({ name }) => name === container.image).newName}:${images[0].newTag}`,
      stops: spec.terminationGracePeriodSeconds,
    }
  },
  'fly.toml': () => {
    const { env, build, kill_timeout } = parseToml(read('fly.toml'))
    return { environment: env, image: build.image, stops: seconds(kill_timeout) }
  },
  'render.yaml': () => {
    const [{ envVars, image }] = parseYaml(read('render.yaml')).services
    return { environment: { PORT: '10000', ...Object.fromEntries(envVars.map(({ key, value }) => [key, value])) }, image: image.url }
  },
}

function ofCompose(name) {
  // As Compose does for a variable that must be set.
  const text = read(name).replace(/\$\{DOMAIN:\?[^}]*\}/g, 'pages.example.org')
  assert.doesNotMatch(text, /\$\{/)
  const { watchfire } = parseYaml(text).services
  return { environment: { PORT: '4000', ...watchfire.environment }, image: watchfire.image, stops: seconds(watchfire.stop_grace_period) }
}

describe('each file in deploy/', () => {
  it('is known to this test', () => {
    const kubernetes = readdirSync(path.join(DEPLOY, 'kubernetes')).map((name) => `kubernetes/${name}`)
    const others = ['kubernetes/disruption-budget.yaml', 'kubernetes/kustomization.yaml', 'kubernetes/service.yaml']
    const all = readdirSync(DEPLOY, { withFileTypes: true }).filter((entry) => entry.isFile()).map(({ name }) => name)
    assert.deepEqual([...all, ...kubernetes].sort(), [...Object.keys(containers), ...others].sort())
  })

  for (const [name, container] of Object.entries(containers)) {
    it(`${name} has this version, and settings that the server accepts`, () => {
      const { environment, image, stops } = container()
      assert.ok(image.endsWith(`:${version}`), image)
      const { status, stdout, stderr } = spawnSync(program, ['serve', '--check'], { encoding: 'utf8', env: environment })
      assert.equal(status, 0, stderr)
      assert.match(stdout, /^would listen at http:\/\/localhost:\d+$/m, 'the server listens on every interface of its container')
      if (stops !== undefined) assert.ok(stops >= DRAIN_S + END_S, `it may drain within ${stops} s`)
    })
  }
})

describe('the manifests for Kubernetes', () => {
  const deployment = parseYaml(read('kubernetes/deployment.yaml'))
  const { labels } = deployment.spec.template.metadata

  it('select the pods that they create', () => {
    const service = parseYaml(read('kubernetes/service.yaml'))
    const budget = parseYaml(read('kubernetes/disruption-budget.yaml'))
    const selectors = [deployment.spec.selector.matchLabels, service.spec.selector, budget.spec.selector.matchLabels]
    for (const selector of selectors) assert.deepEqual(selector, labels)
    const ports = deployment.spec.template.spec.containers[0].ports.map(({ name }) => name)
    for (const { targetPort } of service.spec.ports) assert.ok(ports.includes(targetPort), targetPort)
    const { resources } = parseYaml(read('kubernetes/kustomization.yaml'))
    assert.deepEqual([...resources, 'kustomization.yaml'].sort(), readdirSync(path.join(DEPLOY, 'kubernetes')).sort())
  })

  it('run without privileges, on a read-only root, as the user of the image', () => {
    const { securityContext, containers: [container] } = deployment.spec.template.spec
    assert.equal(securityContext.runAsNonRoot, true)
    assert.equal(securityContext.runAsUser, 65532)
    assert.equal(container.securityContext.readOnlyRootFilesystem, true)
    assert.equal(container.securityContext.allowPrivilegeEscalation, false)
    assert.deepEqual(container.securityContext.capabilities, { drop: ['ALL'] })
  })
})
