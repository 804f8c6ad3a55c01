// Every packet of a browser that hides its address. The browser is in a network namespace of its own, whose only way out is recorded.

import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { chmodSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

import { areConnected, newDirectVisitor } from '../browser/direct-connections.mjs'
import { file } from '../browser/fixtures.mjs'
import { linkOn, waitUntilAllAnswer } from '../browser/neighbour-servers.mjs'
import { PageDriver, addressOf, startServer } from '../browser/page-driver.mjs'
import { EXECUTABLE, VISIBLE_ADDRESS, launch } from '../lib/chromium.mjs'
import { Command } from '../lib/command-line.mjs'
import { Inbox, waitUntil, withTimeout } from '../lib/deadlines.mjs'
import { newFolder } from '../lib/folders.mjs'
import { listeningPorts } from '../lib/listening-ports.mjs'
import { run } from '../lib/program.mjs'

const MIB = 1 << 20
const CONNECT_MS = 60_000
/** A network for each test, of those for documents (RFC 5737): the servers of the first one may send to an address after it has ended. */
const NETWORKS = ['198.51.100', '203.0.113']
const skip = whyNoNamespaces()

function whyNoNamespaces() {
  if (process.getuid?.() !== 0) return 'needs root, to make a network namespace'
  return spawnSync('unshare', ['--net', 'true']).status === 0 ? false : 'needs the permission to make network namespaces'
}

/** A network namespace with one way out, and the destinations of the packets on it. */
class Namespace {
  /** Destinations, such as `tcp 198.51.100.1:4000`, in the order of their first packets. */
  destinations = new Inbox()
  /** The address of this machine there. */
  outside
  #network
  #name = `watchfire-${process.pid}`
  #device = `wf-${process.pid}`
  #recorder

  static async create(t, network) {
    const namespace = new Namespace(network)
    t.after(() => namespace.#delete())
    await namespace.#create()
    return namespace
  }

  constructor(network) {
    this.#network = network
    this.outside = `${network}.1`
  }

  #delete() {
    // Programs that still end keep the namespace, and not the way out.
    for (const args of [
      ['link', 'delete', this.#device],
      ['netns', 'delete', this.#name],
    ])
      spawnSync('ip', args)
  }

  async #create() {
    const [outside, inside] = [this.#device, 'out']
    const ip = (...args) => run('ip', args)
    await ip('netns', 'add', this.#name)
    await ip('link', 'add', outside, 'type', 'veth', 'peer', 'name', inside, 'netns', this.#name)
    await ip('address', 'add', `${this.outside}/24`, 'dev', outside)
    await ip('link', 'set', outside, 'up')
    const within = (...args) => ip('-n', this.#name, ...args)
    await within('address', 'add', `${this.#network}.2/24`, 'dev', inside)
    // Otherwise the system itself sends packets to find an IPv6 router.
    await within('link', 'set', inside, 'addrgenmode', 'none')
    for (const each of ['lo', inside]) await within('link', 'set', each, 'up')
    // A packet to any address goes out, and is recorded.
    await within('route', 'add', 'default', 'via', this.outside)
    await this.#record(inside)
  }

  /** A command that runs a program in the namespace. */
  command(program) {
    return ['ip', 'netns', 'exec', this.#name, program]
  }

  async #record(device) {
    const script = fileURLToPath(new URL('packets.py', import.meta.url))
    const [program, ...args] = [...this.command('python3'), script, device]
    this.#recorder = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'] })
    createInterface({ input: this.#recorder.stdout }).on('line', (line) => this.destinations.put(JSON.parse(line)))
    await this.destinations.next(({ ready }) => ready)
  }

  /** Ends the record, and returns the number of packets and the destinations. */
  async end() {
    this.#recorder.kill('SIGTERM')
    const { packets } = await this.destinations.next(({ packets }) => packets !== undefined)
    return { packets, to: this.destinations.all.flatMap(({ to }) => to ?? []) }
  }
}

/** A visitor whose browser is in the namespace. `localhost` is the other end of its way out there. */
async function newVisitorWithin(t, namespace, server) {
  const program = path.join(newFolder(), 'browser')
  writeFileSync(program, `#!/bin/sh\nexec ${namespace.command(EXECUTABLE).join(' ')} "$@"\n`)
  chmodSync(program, 0o755)
  // Chromium looks names of its maker up when it starts.
  const names = `MAP localhost ${namespace.outside}, MAP * ~NOTFOUND`
  const browser = await launch([...VISIBLE_ADDRESS, `--host-resolver-rules=${names}`], program)
  t.after(() => browser.close())
  return PageDriver.inContext(server, await browser.newContext(), { direct: true })
}

for (const hides of [false, true]) {
  const name = hides
    ? 'a browser that hides its address sends packets to its servers only'
    : 'a browser sends packets to other peers and to STUN'
  test(name, { skip }, async (t) => {
    const namespace = await Namespace.create(t, NETWORKS[Number(hides)])
    const ports = await listeningPorts(2)
    const start = (port, index) =>
      startServer(t, {
        port,
        hosts: ['127.0.0.1', namespace.outside],
        settings: {
          'neighbours.servers': JSON.stringify([`http://localhost:${ports[1 - index]}`]),
          'limits.relay_bytes_per_second_per_peer': hides ? 8 * MIB : MIB,
        },
      })
    const [a, b] = await Promise.all(ports.map(start))
    for (const server of [a, b]) await waitUntilAllAnswer(server)
    const author = await newDirectVisitor(t, a)
    const link = await author.sharePage({ files: [file('embers.bin', randomBytes(12 * MIB))] })
    const folder = newFolder(t)
    writeFileSync(path.join(folder, 'sparks.bin'), randomBytes(2 * MIB))
    const share = new Command(t, folder, 'share', ['sparks.bin', '--to', addressOf(a)])
    const { page: ofTerminal } = await share.event('shared')

    const person = await newVisitorWithin(t, namespace, b)
    if (hides) {
      await person.sharePage({ text: 'Where the switch is.' })
      await person.openDetails()
      await person.tab.getByRole('switch', { name: 'Hide my address' }).check()
      await person.tab.reload()
    }
    // It reads a page of a tab and one of a terminal, both on the other server, and shares one.
    await person.goTo(linkOn(b, link))
    await person.waitUntilComplete(CONNECT_MS)
    if (!hides) await waitUntil(() => areConnected(author), 'a direct connection', CONNECT_MS)
    await person.goTo(linkOn(b, ofTerminal))
    await person.waitUntilComplete(CONNECT_MS)
    const shared = await person.sharePage({ files: [file('ash.bin', randomBytes(3 * MIB))] })
    await author.goTo(linkOn(a, shared))
    await author.waitUntilComplete(CONNECT_MS)
    await share.interrupt()

    const { packets, to } = await withTimeout(namespace.end(), 'the record ends')
    t.diagnostic(`${packets} packets to ${to}`)
    const others = to.filter((each) => each !== 'arp' && !ports.some((port) => each === `tcp ${namespace.outside}:${port}`))
    for (const port of ports) assert(to.includes(`tcp ${namespace.outside}:${port}`), `no packet to the server at ${port}`)
    if (hides) assert.deepEqual(others, [])
    else
      assert(
        others.some((each) => each.startsWith('udp ')),
        `the record has no packets to others: ${to}`,
      )
  })
}
