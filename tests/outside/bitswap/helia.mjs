// Helia and the gateway at the address of the first argument. The other arguments are sizes of files.

import { randomBytes } from 'node:crypto'
import { createInterface } from 'node:readline'

import { withBitswap } from '@helia/bitswap'
import { withLibp2pLight } from '@helia/libp2p'
import { unixfs } from '@helia/unixfs'
import { identify } from '@libp2p/identify'
import { noise } from '@libp2p/noise'
import { tcp } from '@libp2p/tcp'
import { yamux } from '@libp2p/yamux'
import { multiaddr } from '@multiformats/multiaddr'
import { createHeliaLight } from 'helia'
import { CID } from 'multiformats/cid'

const [address, ...sizes] = process.argv.slice(2)
const WAIT_MS = 60_000

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]()
const print = (object) => process.stdout.write(`${JSON.stringify(object)}\n`)

async function ask(request) {
  print(request)
  return (await lines.next()).value
}

async function test(name, run) {
  try {
    const isPassed = await run()
    print({ name, isPassed, found: isPassed ? '' : 'other bytes or another CID' })
  } catch (error) {
    print({ name, isPassed: false, found: error.message })
  }
}

async function bytesOf(content) {
  const chunks = []
  for await (const chunk of content) chunks.push(chunk)
  return Buffer.concat(chunks)
}

const node = await withBitswap(
  withLibp2pLight(createHeliaLight(), {
    addresses: { listen: ['/ip4/127.0.0.1/tcp/0'] },
    transports: [tcp()],
    connectionEncrypters: [noise()],
    streamMuxers: [yamux()],
    services: { identify: identify() },
  }),
).start()
const files = unixfs(node)
/** Blocks of 1 MiB and 1,024 links, as a page has them. */
const PROFILE = { profile: 'unixfs-v1-2025' }

await node.libp2p.dial(multiaddr(address))
for (const size of sizes.map(Number)) {
  await test(`Helia loads a shared file of ${size} bytes, and gives it the same CID`, async () => {
    const { cid, bytes } = JSON.parse(await ask({ ask: 'share', size, name: `shared-${size}.bin` }))
    const expected = Buffer.from(bytes, 'base64')
    const loaded = await bytesOf(files.cat(CID.parse(cid), { signal: AbortSignal.timeout(WAIT_MS) }))
    return loaded.equals(expected) && (await files.addBytes(expected, PROFILE)).toString() === cid
  })
  await test(`a page of ${size} bytes that only Helia holds is loaded`, async () => {
    const held = randomBytes(size)
    const cid = await files.addBytes(held, PROFILE)
    return Buffer.from(await ask({ ask: 'get', cid: cid.toString(), name: `held-${size}.bin` }), 'base64').equals(held)
  })
}
await node.stop()
process.exit(0)
