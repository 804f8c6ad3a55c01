// The Debian package in a fresh root: what the README states, and what its unit allows.

import assert from 'node:assert/strict'
import { appendFileSync, copyFileSync, existsSync, statSync } from 'node:fs'
import path from 'node:path'
import { before, describe, it } from 'node:test'

import { waitUntil } from '../interop/lib/deadlines.mjs'
import { DebianRoot } from './lib/debian-root.mjs'
import { NetworkNamespace, shareAndOpen } from './lib/network-namespace.mjs'
import { commandsOfReadme, debianPackage, endingAfterAll, version } from './lib/packed.mjs'

/** The README promises a page within this time. */
const MINUTE_MS = 60_000
/** The exposure that `systemd-analyze security` computes, times ten. Ten is the worst, and 2.0 is "OK". */
const EXPOSURE_MAX = 20
const READY = /^Watchfire is running at/
const MIRROR_READY = /^Mirroring on http:\/\/127\.0\.0\.1:5000 until/

const commands = commandsOfReadme('With the Debian package')
const atEnd = endingAfterAll()
let root, namespace, browser
before(async () => {
  root = DebianRoot.create(atEnd)
  copyFileSync(debianPackage, root.path(path.join('root', path.basename(debianPackage))))
  namespace = await NetworkNamespace.create(atEnd)
  browser = await namespace.launchBrowser(atEnd)
})

/** Starts what `systemctl` starts on a machine whose systemd runs. */
async function startServices() {
  const server = await root.startService('watchfire.service', { namespace, atEnd, ready: READY })
  const proxy = await root.startService('caddy.service', {
    namespace,
    atEnd,
    ready: /serving initial configuration/,
    home: '/var/lib/caddy',
  })
  await namespace.answers('https://localhost/healthz')
  return { server, proxy }
}

describe('a stock Debian root with the package', () => {
  it('serves a page behind a stock proxy within a minute, by the commands of the README', async (t) => {
    const start = performance.now()
    // The tests are root, and start the services themselves: no systemd runs in this root.
    const isForSystemd = (command) => command.includes('systemctl')
    for (const command of commands.filter((command) => !isForSystemd(command))) root.run(command.replaceAll('sudo ', ''))
    assert.deepEqual(commands.filter(isForSystemd), ['sudo systemctl reload caddy'])
    const { server, proxy } = await startServices()
    await shareAndOpen(browser, 'https://localhost')
    const took = performance.now() - start
    t.diagnostic(`from the first command to the page in a second browser: ${(took / 1000).toFixed(1)} s`)
    assert.equal(await server.stop(), 0, 'the server drains and ends')
    await proxy.stop()
    assert.ok(took < MINUTE_MS, `it took ${took} ms`)
  })

  it('has the version, the manual, the settings and the user', () => {
    assert.equal(root.run('watchfire --version').trim(), `watchfire ${version}`)
    root.run('watchfire serve --check --config /etc/watchfire/config.toml')
    const { mode, uid } = statSync(root.path('etc/default/watchfire'))
    assert.deepEqual({ mode: mode & 0o777, uid }, { mode: 0o640, uid: 0 }, 'only root reads the secrets')
    assert.match(root.run('getent passwd watchfire'), /:\/usr\/sbin\/nologin$/m)
    assert.match(root.run('dpkg --verify watchfire && dpkg --status watchfire'), /^ \/etc\/watchfire\/config\.toml [0-9a-f]{32}$/m)
  })

  it('starts the service at boot, and leaves the socket and the mirror to the operator', () => {
    const stateOf = (unit) => root.run(`systemctl is-enabled ${unit} || true`).trim()
    const units = ['watchfire.service', 'watchfire.socket', 'watchfire-mirror.service']
    assert.deepEqual(units.map(stateOf), ['enabled', 'disabled', 'disabled'])
  })

  it('has units that systemd accepts, and services with little exposure', (t) => {
    assert.equal(root.run('systemd-analyze verify --man=no watchfire.service watchfire.socket watchfire-mirror.service'), '')
    for (const unit of ['watchfire.service', 'watchfire-mirror.service']) {
      const report = root.run(`systemd-analyze security --offline=true --no-pager --threshold=${EXPOSURE_MAX} ${unit}`)
      t.diagnostic(report.trim().split('\n').at(-1))
    }
  })

  it('makes only system calls that its unit allows', async (t) => {
    const trace = '/var/lib/watchfire/trace'
    root.run('install --directory --owner=watchfire --group=watchfire --mode=0700 /var/lib/watchfire')
    // With -D, the server is the process that gets the signals.
    const wrapper = ['strace', '-D', '-f', '-q', '--abbrev=none', '-e', 'signal=none', '-o', trace]
    const server = await root.startService('watchfire.service', { namespace, atEnd, ready: READY, wrapper })
    await namespace.answers('http://localhost:4000/healthz')
    await shareAndOpen(browser, 'http://localhost:4000')
    assert.equal(await server.stop(), 0)
    await assertIsAllowed(t, 'watchfire.service', trace)
  })

  it('has a mirror that starts with its settings and makes only system calls that its unit allows', async (t) => {
    const trace = '/var/lib/watchfire/mirror-trace'
    root.run('install --directory --owner=watchfire --group=watchfire --mode=0700 /var/lib/watchfire')
    const settings = [...root.read('etc/default/watchfire-mirror').matchAll(/^(\w+)=(.*)$/gm)].map(([, name, value]) => `${name}=${value}`)
    assert.deepEqual(settings, ['WATCHFIRE_MIRROR_UPSTREAM=docker.io'])
    const wrapper = ['strace', '-D', '-f', '-q', '--abbrev=none', '-e', 'signal=none', '-o', trace, 'env', ...settings]
    const mirror = await root.startService('watchfire-mirror.service', { namespace, atEnd, ready: MIRROR_READY, wrapper })
    await namespace.answers('http://127.0.0.1:5000/healthz')
    root.run(
      'watchfire mirror configure containerd --yes && watchfire mirror configure containerd --undo --yes && ! test -e /etc/containerd',
    )
    assert.equal(await mirror.stop(), 0)
    await assertIsAllowed(t, 'watchfire-mirror.service', trace)
  })

  it('keeps the operator’s settings through an upgrade', () => {
    appendFileSync(root.path('etc/watchfire/config.toml'), '\n[log]\nlevel = "debug"\n')
    root.run(`dpkg --install ./${path.basename(debianPackage)}`)
    assert.match(root.read('etc/watchfire/config.toml'), /level = "debug"/)
    root.run('watchfire serve --check --config /etc/watchfire/config.toml')
  })

  it('leaves the settings at a removal, and nothing of the service after a purge', () => {
    root.run('apt-get remove --yes watchfire')
    assert.ok(existsSync(root.path('etc/watchfire/config.toml')))
    assert.ok(!existsSync(root.path('usr/bin/watchfire')))
    root.run('apt-get purge --yes watchfire')
    for (const left of ['etc/watchfire', 'etc/default/watchfire', 'etc/default/watchfire-mirror', 'var/lib/watchfire']) {
      assert.ok(!existsSync(root.path(left)), left)
    }
    assert.equal(root.run('find /etc/systemd /lib/systemd -name "watchfire*"'), '')
  })
})

/** The complete trace of a service has only system calls that its unit allows. */
async function assertIsAllowed(t, unit, trace) {
  await waitUntil(() => root.read(trace).includes('+++ exited with 0 +++'), 'the trace is complete')

  const calls = root
    .read(trace)
    .split('\n')
    .filter((line) => /^\d+ +\w+\(/.test(line))
    .map((line) => line.replace(/^\d+ +/, ''))
  const names = new Set(calls.map((call) => /^\w+/.exec(call)[0]))
  const { allowed, denied } = filterOf(unit)
  const outside = [...names].filter((name) => !allowed.has(name) || denied.has(name))
  t.diagnostic(`${calls.length} calls of ${names.size} kinds`)
  assert.ok(names.has('epoll_wait') || names.has('epoll_pwait'), 'the trace has the event loop')
  assert.deepEqual(outside, [], 'SystemCallFilter')
  const writable = calls.filter((call) => /^(mmap|mprotect|pkey_mprotect)\(.*PROT_WRITE\|PROT_EXEC/.test(call))
  assert.deepEqual(writable, [], 'MemoryDenyWriteExecute')
  const families = root.unitSetting(unit, 'RestrictAddressFamilies').split(' ')
  const sockets = calls.filter((call) => call.startsWith('socket(')).map((call) => /AF_\w+/.exec(call)[0])
  assert.deepEqual(
    [...new Set(sockets)].filter((family) => !families.includes(family)),
    [],
    'RestrictAddressFamilies',
  )
  assert.deepEqual(
    calls.filter((call) => /CLONE_NEW/.test(call)),
    [],
    'RestrictNamespaces',
  )
}

/** The names that the filter of a unit allows and denies, with its groups resolved. */
function filterOf(unit) {
  const lines = [...root.read(`/lib/systemd/system/${unit}`).matchAll(/^SystemCallFilter=(~?)(.*)$/gm)]
  const namesOf = (groups) => new Set(groups.flatMap((group) => resolve(group)))
  const groups = (isDenied) => lines.filter(([, tilde]) => (tilde === '~') === isDenied).flatMap(([, , words]) => words.split(' '))
  return { allowed: namesOf(groups(false)), denied: namesOf(groups(true)) }
}

/** The system calls of a group, such as `@system-service`. */
function resolve(group) {
  if (!group.startsWith('@')) return [group]
  const text = root.run(`systemd-analyze syscall-filter ${group}`)
  const members = text
    .split('\n')
    .filter((line) => /^ +[@\w]/.test(line))
    .map((line) => line.trim())
  return members.flatMap((member) => (member === group ? [] : resolve(member)))
}
