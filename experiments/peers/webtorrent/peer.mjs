// WebTorrent as a peer of the lab.
//
//   node peer.mjs seed     shares the file of LAB_PATHS
//   node peer.mjs fetch    fetches the torrents of LAB_NAMES from the nodes of LAB_PEERS, and serves on

import WebTorrent from 'webtorrent'

import { variable } from '../variable.mjs'

const PROGRESS_MS = 100
/** Nodes start together, so a node that is dialed may not listen yet. */
const DIAL_MS = 250

const tell = (event) => process.stdout.write(`${JSON.stringify(event)}\n`)

/**
 * A program listens on all addresses of its machine, where the nodes of a run may differ only in their address. So each has a
 * port of its own, which others derive from the address too.
 */
function portOf(address) {
  const [, , third, fourth] = address.split('.').map(Number)
  return 20_000 + (third % 32) * 256 + fourth
}

const at = (address) => `${address}:${portOf(address)}`

/** A client that finds no other peers than those of the lab. */
function start() {
  const client = new WebTorrent({
    torrentPort: portOf(variable('LAB_ADDRESS')),
    dht: false,
    lsd: false,
    tracker: false,
    natUpnp: false,
    natPmp: false,
    utp: false,
    webSeeds: false,
  })
  client.on('error', (error) => fail('cannot share or fetch', error))
  process.on('SIGTERM', () => stop(client))
  return client
}

function fail(what, error) {
  console.error(`webtorrent: ${what}: ${error.message ?? error}`)
  process.exit(1)
}

/** The last event: what was sent, and what came more often than once. */
function stop(client) {
  const sum = (number) => client.torrents.reduce((total, torrent) => total + number(torrent), 0)
  const received = sum((torrent) => torrent.received)
  const duplicate = sum((torrent) => Math.max(0, torrent.received - torrent.downloaded))
  const sent = sum((torrent) => torrent.uploaded)
  tell({ event: 'stopped', sent_bytes: sent, exchange: { sent_bytes: sent, received_bytes: received, duplicate_bytes: duplicate } })
  process.exit(0)
}

function seed() {
  const client = start()
  const paths = JSON.parse(variable('LAB_PATHS'))
  const shareNext = () => {
    const path = paths.shift()
    if (!path) return
    client.seed(path, { announceList: [] }, (torrent) => {
      // With the metadata, so that nothing but the content is fetched.
      tell({ event: 'shared', cid: Buffer.from(torrent.torrentFile).toString('base64'), address: variable('LAB_ADDRESS') })
      shareNext()
    })
  }
  shareNext()
}

async function fetchAll() {
  const client = start()
  const names = JSON.parse(variable('LAB_NAMES'))
  const peers = JSON.parse(variable('LAB_PEERS')).map(at)
  for (const name of names) {
    await fetchOne(client, Buffer.from(name, 'base64'), peers)
    tell({ event: 'held' })
  }
}

/** @returns {Promise<void>} */
function fetchOne(client, torrentFile, peers) {
  return new Promise((resolve) => {
    const torrent = client.add(torrentFile, { path: variable('LAB_FOLDER'), announce: [] })
    torrent.on('error', (error) => fail('cannot fetch', error))
    const tellProgress = () => tell({ event: 'progress', bytes: torrent.downloaded })
    torrent.once('download', tellProgress)
    const progress = setInterval(() => torrent.downloaded && tellProgress(), PROGRESS_MS)
    const connected = new Set()
    torrent.on('wire', (wire) => connected.add(`${wire.remoteAddress}:${wire.remotePort}`))
    const dial = () => {
      const missing = peers.filter((peer) => !connected.has(peer))
      for (const peer of missing) torrent.addPeer(peer)
      if (!missing.length) clearInterval(dialing)
    }
    const dialing = setInterval(dial, DIAL_MS)
    torrent.once('infoHash', dial)
    torrent.once('done', () => {
      clearInterval(progress)
      clearInterval(dialing)
      resolve()
    })
  })
}

const commands = { seed, fetch: fetchAll }

const command = commands[process.argv[2]]
if (!command) fail(`cannot run ${process.argv[2]}`, 'the command is seed or fetch')
await command()
