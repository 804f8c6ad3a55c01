// Helia, an implementation of Bitswap in JavaScript, against the libp2p gateway of a server.

import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

import { waitUntil } from '../../interop/lib/deadlines.mjs'
import { Command } from '../../interop/lib/command-line.mjs'
import { startWatchfire } from '../../interop/lib/server.mjs'
import { casesOf } from '../lib/program.mjs'
import { runOrFail } from '../lib/tools.mjs'

const FOLDER = fileURLToPath(new URL('.', import.meta.url))
const RUN_MS = 5 * 60_000
const INSTALL_MS = 5 * 60_000
/** The sizes of the files: empty, one block, two blocks, several. */
const SIZES = [0, 1, (1 << 20) + 1, 3_500_000]

export const suite = {
  title: 'Bitswap',
  about:
    'Helia connects to the libp2p gateway of a server. It loads files that only `watchfire share` holds, and `watchfire get` loads ' +
    'files that only Helia holds. Both name the same content by the same CID. [kubo](../tutorial/fetch-with-kubo.md) is a part of `make test`.',
  // Helia takes a minute to install.
  parts: [{ judged: 'the gateway, with Helia', run: judgeWithHelia, isInSlice: false }],
}

async function judgeWithHelia({ scratch }) {
  if (!existsSync(path.join(FOLDER, 'node_modules/.package-lock.json'))) {
    await runOrFail('npm', ['ci', '--no-audit', '--no-fund'], { ms: INSTALL_MS, cwd: FOLDER })
  }
  const server = await startWatchfire({ settings: { 'p2p.listen': '/ip4/127.0.0.1/tcp/0' } })
  const ends = []
  const owner = { after: (end) => ends.push(end) }
  try {
    const address = await gatewayOf(server)
    const state = { owner, scratch, to: server.http('') }
    const args = [path.join(FOLDER, 'helia.mjs'), address, ...SIZES.map(String)]
    const cases = await casesOf(nodeOfHelia(), args, (ask, request) => ASKED[ask](state, request), { ms: RUN_MS })
    return { version: JSON.parse(readFileSync(path.join(FOLDER, 'package.json'), 'utf8')).dependencies.helia, cases }
  } finally {
    for (const end of ends.reverse()) end()
    await server.stop()
  }
}

/** Helia needs Node.js 22, which its folder has too. */
function nodeOfHelia() {
  return Number(process.versions.node.split('.')[0]) > 22 ? process.execPath : path.join(FOLDER, 'node_modules/.bin/node')
}

/** The address of the gateway, from the log without its colours. */
async function gatewayOf(server) {
  const listening = () => /the gateway is listening.*address=(\S+)/.exec(server.stderr.replaceAll(/\x1b\[[0-9;]*m/g, ''))
  const [, address] = await waitUntil(listening, 'the gateway reports its address')
  return address
}

const ASKED = {
  /** Shares a file of random bytes; the answer is its CID and its bytes. */
  async share({ owner, scratch, to }, { size, name }) {
    const folder = path.join(scratch, `share-${name}`)
    mkdirSync(folder)
    const bytes = randomBytes(size)
    writeFileSync(path.join(folder, name), bytes)
    const share = new Command(owner, folder, 'share', [name, '--to', to, '--listen', '/ip4/127.0.0.1/tcp/0'])
    const { cid } = await share.event('shared')
    return JSON.stringify({ cid, bytes: bytes.toString('base64') })
  },
  /** Gets a page by its CID; the answer is the bytes of its file. */
  async get({ owner, scratch, to }, { cid, name }) {
    const folder = path.join(scratch, `get-${name}`)
    mkdirSync(folder)
    const get = new Command(owner, folder, 'get', [`${to}/p/${cid}#filename=${name}`])
    await get.event('got')
    return readFileSync(path.join(folder, name)).toString('base64')
  },
}
