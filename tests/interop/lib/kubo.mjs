// A real kubo, built once from the Go modules in kubo/go.mod, with a repository of its own, no bootstrap
// peers, and only loopback addresses.

import assert from 'node:assert/strict'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { newFolder } from './folders.mjs'
import { GoPrograms } from './go-programs.mjs'
import { Program, run } from './program.mjs'

const START_MS = 60_000
const COMMAND_MS = 120_000
const OUTPUT_BYTES = 1 << 30

const programs = new GoPrograms({ folder: 'kubo', module: 'github.com/ipfs/kubo', packages: { ipfs: 'cmd/ipfs' }, keptIn: 'kubo' })

/** The reason why kubo cannot run here; false when it can. On the CI machine it must run. */
export const whyNoKubo = programs.whyMissing

/** Builds kubo unless it exists: takes some minutes and some hundred megabytes of modules. Returns its path. */
export async function buildKubo() {
  await programs.build()
  return programs.path('ipfs')
}

/** Builds kubo for a benchmark, which expects it in `folder`. */
export const linkKubo = (folder) => programs.link(folder)

/** A running kubo. */
export class Kubo {
  ipfs
  folder = newFolder()
  #daemon

  /**
   * `settings` replace parts of its configuration, such as `{ 'Routing.Type': 'dht' }`. `algorithm` is that of its key.
   * @param {{ settings?: object, swarmKey?: string, algorithm?: 'ed25519' | 'rsa' }} options
   */
  static async start({ settings = {}, swarmKey, algorithm = 'ed25519' } = {}) {
    const kubo = new Kubo()
    kubo.ipfs = await buildKubo()
    try {
      await kubo.command(['init', '--empty-repo', '--profile=test', `--algorithm=${algorithm}`])
      kubo.#configure({ ...ALONE, ...settings })
      if (swarmKey) writeFileSync(path.join(kubo.folder, 'swarm.key'), `/key/swarm/psk/1.0.0/\n/base16/\n${swarmKey}\n`)
      await kubo.resume()
    } catch (error) {
      await kubo.stop()
      throw error
    }
    return kubo
  }

  #configure(settings) {
    const file = path.join(this.folder, 'config')
    const config = JSON.parse(readFileSync(file, 'utf8'))
    for (const [name, value] of Object.entries(settings)) {
      const parts = name.split('.')
      const last = parts.pop()
      const parent = parts.reduce((object, part) => (object[part] ??= {}), config)
      parent[last] = value
    }
    writeFileSync(file, JSON.stringify(config))
  }

  /** Starts kubo, also after `pause`. */
  async resume() {
    const daemon = new Program(this.ipfs, ['daemon', '--migrate=false'], { env: this.#environment() })
    this.#daemon = daemon
    await daemon.until(() => daemon.output.includes('Daemon is ready'), 'kubo is ready', START_MS)
    const { ID, Addresses } = JSON.parse(await this.command(['id', '--enc=json']))
    this.peer = ID
    this.addresses = Addresses
    this.address = Addresses[0]
    for (const address of Addresses) assert.match(address, /^\/ip4\/127\.0\.0\.1\//, 'kubo listens only on loopback')
  }

  /** Stops kubo and keeps its repository. */
  async pause() {
    await this.#daemon?.stop('SIGTERM', START_MS)
  }

  #environment() {
    return { ...process.env, IPFS_PATH: this.folder, IPFS_TELEMETRY: 'off', GOLOG_LOG_LEVEL: 'error' }
  }

  /** The output of a command, as text. */
  async command(args) {
    return (await this.bytes(args)).toString('utf8').trim()
  }

  /** The output of a command. */
  async bytes(args) {
    const env = this.#environment()
    try {
      return (await run(this.ipfs, args, { env, timeout: COMMAND_MS, killSignal: 'SIGKILL', maxBuffer: OUTPUT_BYTES, encoding: 'buffer' }))
        .stdout
    } catch (error) {
      throw new Error(`ipfs ${args.join(' ')}: ${error.killed ? 'timed out' : error.stderr}`)
    }
  }

  /** Adds a file or folder; returns its CID. */
  add(file, ...options) {
    return this.command(['add', '-Q', '-r', ...options, file])
  }

  cat(cid) {
    return this.bytes(['cat', cid])
  }

  connect(address) {
    return this.command(['swarm', 'connect', address])
  }

  async bitswap() {
    return JSON.parse(await this.command(['bitswap', 'stat', '--enc=json']))
  }

  async stop() {
    await this.pause()
    rmSync(this.folder, { recursive: true, force: true })
  }
}

/** Settings under which kubo contacts only the peers that a test connects. */
const ALONE = {
  'Routing.Type': 'none',
  'Swarm.DisableNatPortMap': true,
  'Swarm.RelayClient.Enabled': false,
  'Swarm.RelayService.Enabled': false,
  'Swarm.Transports.Network.Relay': false,
  'Provide.Enabled': false,
  'HTTPRetrieval.Enabled': false,
}
