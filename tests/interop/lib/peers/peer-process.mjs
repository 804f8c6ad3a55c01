// A process of simulated peers. It runs the commands of its parent and reports the state of its peers.

import { createHash } from 'node:crypto'

import { Tab } from './simulated-tab.mjs'

const [bundle, address, reportMs] = process.argv.slice(2)
// A tab uses STUN of the host that served it.
Object.assign(globalThis, { location: new URL(address) })
const web = await import(bundle)
const limits = await web.fetchLimits((path, init) => fetch(new URL(path, address), init))
const endpoint = `${address.replace('http', 'ws')}/socket`
const tabs = new Map()

const commands = {
  /** Shares that many bytes of unique content. */
  async publish(id, bytes) {
    const film = noise(bytes)
    const publication = await web.publish([{ path: 'film.bin', blob: new Blob([film]) }], { pageBytesMax: limits.pageBytesMax })
    tabs.set(id, new Tab(web, { endpoint, limits, root: publication.root, publication }))
    return { root: publication.root, hash: createHash('sha256').update(film).digest('hex') }
  },
  arrive(id, root) {
    tabs.set(id, new Tab(web, { endpoint, limits, root, publication: undefined }))
  },
  leave(id) {
    const tab = tabs.get(id)
    tabs.delete(id)
    tab.leave()
    return { id, ...tab.report() }
  },
  hash: (id) => tabs.get(id).hash(),
}

process.on('message', async ({ call, command, args }) => {
  try {
    process.send({ call, reply: await commands[command](...args) })
  } catch (error) {
    process.send({ call, error: error.stack })
  }
})
// Exits with the parent; otherwise this process would outlive it.
process.on('disconnect', () => process.exit())
setInterval(() => {
  const { user, system } = process.cpuUsage()
  const cpuSeconds = (user + system) / 1e6
  process.send({
    state: { tabs: [...tabs].map(([id, tab]) => ({ id, ...tab.report() })), residentBytes: process.memoryUsage.rss(), cpuSeconds },
  })
}, Number(reportMs))
process.send({ isReady: true })

/** Numbers of a linear congruential generator, the same in each run. */
function noise(bytes) {
  const words = new Uint32Array(Math.ceil(bytes / 4))
  let state = 1
  for (let i = 0; i < words.length; i++) words[i] = state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
  return new Uint8Array(words.buffer, 0, bytes)
}
