// A page that spreads while people come and go: one publishes, the others come in waves, some close their tab half way and
// some of those return, and one process of peers is cut off without a word; its peers return, too.

import { setTimeout as pause } from 'node:timers/promises'

const LOOK_MS = 250
/** How much of the page a wave has, on average, before the next one comes. */
const NEXT_WAVE_AT = 0.3
/** Of each wave but the last one in so many leaves, as soon as it has that much; every second of those returns. */
const LEAVES_ONE_IN = 5
const LEAVES_WITH = 0.4

const PUBLISHER = 'publisher'

/**
 * Plays it with `count` people beside the publisher, who has the first of `herds` processes to itself. Resolves, when all
 * who are here have all of the page, with what happened and with the hash of what each of them has.
 */
export async function playChurn({ peers, server, count, herds, waves, bytes, timeoutMs, tell = () => {} }) {
  const names = Array.from({ length: count }, (_, i) => `peer ${i + 1}`)
  const homes = new Map(names.map((name, i) => [name, 1 + (i % (herds - 1))]))
  const size = Math.ceil(count / waves)
  const here = new Set([PUBLISHER])
  const leaving = new Set()
  const returning = new Set()
  const samples = []
  let residentServerMost = 0

  const hash = await peers.publish(PUBLISHER, 0, bytes)
  const began = Date.now()

  const arrive = (coming) => Promise.all(coming.map((name) => {
    here.add(name)
    return peers.arrive(name, homes.get(name))
  }))

  async function depart() {
    for (const name of leaving) {
      if ((peers.tell(name)?.share ?? 0) < LEAVES_WITH) continue
      await peers.leave(name)
      leaving.delete(name)
      here.delete(name)
    }
  }

  async function crash() {
    for (const [name, home] of homes) {
      if (home !== herds - 1 || !here.delete(name)) continue
      leaving.delete(name)
      returning.add(name)
    }
    await peers.crash(herds - 1)
  }

  async function until(isSo, what) {
    for (;;) {
      await depart()
      residentServerMost = Math.max(residentServerMost, server.residentBytes())
      const sample = sampleOf([...here].flatMap((name) => peers.tell(name) ?? []), peers, bytes)
      samples.push(sample)
      const words = `${((sample.at - began) / 1000).toFixed(0)} s, ${what}: ${here.size} here, ${sample.complete} have all, ${(sample.share * 100).toFixed(0)} % on average, ${sample.ways} direct ways`
      tell(words)
      if (isSo()) return
      if (Date.now() - began > timeoutMs) throw new Error(`in vain after ${words}\n${stragglers([...here].flatMap((name) => peers.tell(name) ?? { id: name }))}`)
      await pause(LOOK_MS)
    }
  }

  for (let wave = 0; wave < waves - 1; wave++) {
    const coming = names.slice(wave * size, (wave + 1) * size)
    await arrive(coming)
    coming.filter((_, i) => i % LEAVES_ONE_IN === LEAVES_ONE_IN - 1).forEach((name, i) => {
      leaving.add(name)
      if (i % 2 === 0) returning.add(name)
    })
    // Who has left had as much.
    const shareOf = (name) => (here.has(name) ? peers.tell(name)?.share ?? 0 : 1)
    await until(() => coming.reduce((sum, name) => sum + shareOf(name), 0) >= coming.length * NEXT_WAVE_AT, `wave ${wave + 1} of ${waves}`)
    if (wave === Math.floor(waves / 2) - 1) await crash()
  }
  await until(() => leaving.size === 0, 'those who leave have left')
  await arrive([...names.slice((waves - 1) * size), ...returning])
  await until(() => [...here].every((name) => peers.tell(name)?.phase === 'complete'), `wave ${waves} of ${waves}`)
  const endedAt = Date.now()
  const hashes = new Map()
  for (const name of here) hashes.set(name, await peers.hash(name))
  return { hash, hashes, began, endedAt, samples, here: [...here].map((name) => peers.tell(name)), past: peers.past, returned: returning.size, residentServerMost }
}

function sampleOf(told, { past }, bytes) {
  const everybody = [...told, ...past]
  const sum = (figure) => everybody.reduce((total, each) => total + each[figure], 0)
  const published = told.find(({ id }) => id === PUBLISHER)
  return {
    at: Date.now(),
    here: told.length,
    complete: told.filter(({ phase }) => phase === 'complete').length,
    share: told.reduce((total, each) => total + each.share, 0) / Math.max(1, told.length),
    ways: told.reduce((total, { lines }) => total + lines, 0) / 2,
    directBytes: sum('receivedBytes'),
    relayedBytes: sum('relayedBytes'),
    relayedWhileDirect: sum('relayedWhileDirect'),
    copies: published === undefined ? 0 : (published.sentBytes + published.relayedBytes) / bytes,
  }
}

/** What those say who have not all of it. */
function stragglers(told) {
  return told.filter(({ phase }) => phase !== 'complete').slice(0, 5).map((each) => JSON.stringify(each)).join('\n')
}

export { PUBLISHER }
