// Two browsers on two networks, on a page of Watchfire: `experiments/networks.toml`, which the lab runs with routers that it
// simulates. The tests are about the paths and about what the visitor's page says; the experiment is about times.

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { accessSync, constants } from 'node:fs'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

import { newFolder } from '../lib/folders.mjs'
import { run } from '../lib/program.mjs'
import { binary, environment } from '../lib/server.mjs'

const EXPERIMENT = fileURLToPath(new URL('../../../experiments/networks.toml', import.meta.url))
const RUN_MS = 1_800_000
const KINDS = ['open', 'full-cone', 'address-restricted', 'port-restricted', 'symmetric', 'carrier', 'udp-blocked', 'ipv6-only']
/** The longest time without a new block after an uplink changed. A block of 1 MiB takes one second of it. */
const UPLINK_WAIT_MAX_S = 12
const skip = whyNoNetworks()

function whyNoNetworks() {
  if (process.getuid?.() !== 0) return 'needs root, to make network namespaces'
  try {
    accessSync('/dev/net/tun', constants.R_OK | constants.W_OK)
  } catch {
    return 'needs /dev/net/tun'
  }
  return spawnSync('unshare', ['--net', 'true']).status === 0 ? false : 'needs the permission to make network namespaces'
}

/** Runs trials of the experiment, and returns what each visitor's page did: path, seconds and reasons by their names. */
async function visit(t, ...trials) {
  const folder = newFolder(t)
  const json = path.join(folder, 'results.json')
  const chosen = trials.flatMap((name) => ['--trial', name])
  const options = ['--driver', 'processes', '--repeat', '1', '--folder', folder, '--json', json, ...chosen]
  await run(binary('watchfire'), ['lab', 'run', EXPERIMENT, ...options], { timeout: RUN_MS, env: environment() })
  const { runs } = JSON.parse(await readFile(json, 'utf8'))
  assert.deepEqual(runs.map(({ trial }) => trial).sort(), [...trials].sort())
  return new Map(
    runs.map(({ trial, nodes, measures }) => {
      const visitor = nodes.find(({ name }) => name === 'visitor')
      assert(visitor.finished_at > 0, `${trial}: the visitor has not the whole page: ${JSON.stringify(visitor)}`)
      const isDirect = 'program: path: direct after, s' in measures
      const reasons = Object.keys(measures).map((name) => /^program: path: shows (.*) after, s$/.exec(name)?.[1])
      t.diagnostic(`${trial}: ${JSON.stringify(measures)}`)
      const waitSeconds = measures['program: path: longest time without content, s']
      return [trial, { isDirect, reasons: reasons.filter((reason) => reason !== undefined), waitSeconds }]
    }),
  )
}

const nameOf = (publisher, visitor) => `pair: ${publisher} to ${visitor}`

/** Whether two networks let packets through to each other, once both have sent some. */
function canBeDirect(one, other) {
  if ([one, other].includes('udp-blocked')) return false
  if (!haveCommonIpVersion(one, other)) return false
  // The address that a symmetric NAT has towards a peer is known to nobody else. A filter by port drops its packets.
  const filtersPorts = ['port-restricted', 'symmetric', 'carrier']
  return !(one === 'symmetric' && filtersPorts.includes(other)) && !(other === 'symmetric' && filtersPorts.includes(one))
}

function haveCommonIpVersion(one, other) {
  return one === other || ![one, other].includes('ipv6-only') || [one, other].includes('open')
}

/** The reason that the visitor's page gives for the relay. */
function reasonFor(publisher, visitor) {
  const isBlocked = [publisher, visitor].includes('udp-blocked')
  if (!isBlocked && !haveCommonIpVersion(publisher, visitor)) return 'no common IP version'
  for (const [kind, reason] of [
    ['udp-blocked', 'no UDP'],
    ['symmetric', 'symmetric NAT'],
  ]) {
    if (publisher === kind && visitor === kind) return `${reason} on both sides`
    if (visitor === kind) return `${reason} here`
    if (publisher === kind) return `${reason} there`
  }
}

function assertPath(publisher, visitor, { isDirect, reasons }) {
  const name = nameOf(publisher, visitor)
  assert.equal(isDirect, canBeDirect(publisher, visitor), `${name}: ${reasons.join(', ')}`)
  if (!isDirect) assert(reasons.includes(reasonFor(publisher, visitor)), `${name}: ${reasons.join(', ') || 'no reason'}`)
}

test('two homes connect directly, and a page says that symmetric NATs prevent it', { skip }, async (t) => {
  const pairs = [
    ['port-restricted', 'carrier'],
    ['symmetric', 'symmetric'],
  ]
  const visits = await visit(t, ...pairs.map(([one, other]) => nameOf(one, other)))
  for (const [one, other] of pairs) assertPath(one, other, visits.get(nameOf(one, other)))
})

test('every two browsers exchange a page, directly if their networks permit it', { skip }, async (t) => {
  const pairs = KINDS.flatMap((publisher) => KINDS.map((visitor) => [publisher, visitor]))
  const visits = await visit(t, ...pairs.map(([one, other]) => nameOf(one, other)))
  for (const [one, other] of pairs) {
    await t.test(nameOf(one, other), () => assertPath(one, other, visits.get(nameOf(one, other))))
  }
})

test('a page is completed soon although the uplink of its publisher or visitor changes', { skip }, async (t) => {
  const visits = await visit(t, "the visitor's uplink changes", "the publisher's uplink changes")
  for (const [trial, { waitSeconds }] of visits) assert(waitSeconds < UPLINK_WAIT_MAX_S, `${trial}: ${waitSeconds} s without content`)
})
