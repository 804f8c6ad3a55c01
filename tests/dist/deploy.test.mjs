// The files in deploy/: their settings are settings of the server, and they leave it time to drain.

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync, readdirSync } from 'node:fs'
import path from 'node:path'
import { describe, it } from 'node:test'

import { parse as parseToml } from 'smol-toml'
import { parse as parseYaml, parseAllDocuments } from 'yaml'

import { REPOSITORY, endingAfterAll, run, unpackArchive, version } from './lib/packed.mjs'

const MIRROR = 'mirror-daemonset.yaml'
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
    const others = ['kubernetes/disruption-budget.yaml', 'kubernetes/kustomization.yaml', 'kubernetes/service.yaml', `kubernetes/${MIRROR}`]
    const all = readdirSync(DEPLOY, { withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map(({ name }) => name)
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
    // The mirror is not a part of the server, and is applied on its own.
    assert.deepEqual([...resources, 'kustomization.yaml', MIRROR].sort(), readdirSync(path.join(DEPLOY, 'kubernetes')).sort())
  })

  it('run without privileges, on a read-only root, as the user of the image', () => {
    const {
      securityContext,
      containers: [container],
    } = deployment.spec.template.spec
    assert.equal(securityContext.runAsNonRoot, true)
    assert.equal(securityContext.runAsUser, 65532)
    assert.equal(container.securityContext.readOnlyRootFilesystem, true)
    assert.equal(container.securityContext.allowPrivilegeEscalation, false)
    assert.deepEqual(container.securityContext.capabilities, { drop: ['ALL'] })
  })
})

describe('the manifest of the mirror', () => {
  const documents = parseAllDocuments(read(`kubernetes/${MIRROR}`)).map((document) => document.toJS())
  const [namespace, service, daemonSet] = ['Namespace', 'Service', 'DaemonSet'].map((kind) => documents.find((one) => one.kind === kind))
  const { metadata, spec } = daemonSet.spec.template
  const [mirror] = spec.containers
  const [configure, owner] = spec.initContainers
  /** The value of an option of the mirror. */
  const option = (name) => mirror.args.map((arg) => arg.split('=')).find(([key]) => key === `--${name}`)?.[1]

  it('has one namespace, selects the pods that it creates, and has this version', () => {
    assert.equal(documents.length, 3)
    for (const one of [service, daemonSet]) assert.equal(one.metadata.namespace, namespace.metadata.name)
    for (const selector of [service.spec.selector, daemonSet.spec.selector.matchLabels]) assert.deepEqual(selector, metadata.labels)
    for (const { image } of [mirror, configure]) assert.ok(image.endsWith(`/watchfire:${version}`), image)
  })

  it('has options that the program knows', () => {
    const commands = [
      [mirror.args, ['mirror']],
      [configure.args, ['mirror', 'configure', 'containerd']],
    ]
    for (const [args, command] of commands) {
      assert.deepEqual(args.slice(0, command.length), command)
      const help = run(program, [...command, '--help'])
      for (const arg of args.filter((arg) => arg.startsWith('--'))) {
        assert.ok(new RegExp(`^ +${arg.split('=')[0]}\\b`, 'm').test(help), `${arg} is an option of ${command.join(' ')}`)
      }
    }
  })

  it('finds the other mirrors at the port where they listen', () => {
    assert.equal(service.spec.clusterIP, 'None')
    const ports = Object.fromEntries(mirror.ports.map(({ name, containerPort }) => [name, containerPort]))
    assert.equal(option('listen'), `127.0.0.1:${ports.http}`)
    assert.ok(option('peer-listen').endsWith(`:${ports.peer}`))
    assert.equal(option('join-dns'), `${service.metadata.name}.${namespace.metadata.name}.svc.cluster.local:${ports.peer}`)
    assert.deepEqual(
      service.spec.ports.map(({ port }) => port),
      [ports.peer],
    )
    for (const probe of [mirror.startupProbe, mirror.livenessProbe, mirror.readinessProbe]) {
      assert.deepEqual(probe.httpGet, { host: '127.0.0.1', path: '/healthz', port: 'http' })
    }
  })

  it('mounts what its options name', () => {
    const volumes = spec.volumes.map(({ name }) => name)
    const mounts = [mirror, configure, owner].flatMap(({ volumeMounts }) => volumeMounts)
    assert.deepEqual([...new Set(mounts.map(({ name }) => name))].sort(), [...volumes].sort())
    const paths = mirror.volumeMounts.map(({ mountPath }) => mountPath)
    assert.ok(paths.includes(option('store')))
    assert.ok(paths.includes(path.dirname(option('fleet-key'))))
    const root = configure.args[configure.args.indexOf('--root') + 1]
    assert.deepEqual(
      configure.volumeMounts.map(({ mountPath }) => mountPath),
      [`${root}/etc/containerd`],
    )
  })

  it('runs without privileges, on a read-only root, and only its preparation as root', () => {
    const { securityContext } = spec
    assert.deepEqual([securityContext.runAsNonRoot, securityContext.runAsUser], [true, 65532])
    assert.equal(mirror.securityContext.runAsUser, undefined)
    for (const { name, securityContext } of [mirror, configure, owner]) {
      assert.equal(securityContext.readOnlyRootFilesystem, true)
      assert.equal(securityContext.allowPrivilegeEscalation, false)
      assert.deepEqual(securityContext.capabilities, name === 'store-owner' ? { drop: ['ALL'], add: ['CHOWN'] } : { drop: ['ALL'] })
    }
    assert.ok(owner.command.includes('65532:65532'))
  })
})
