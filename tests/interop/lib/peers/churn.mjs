// A page that spreads while peers join and leave. One peer publishes and the others join in waves. Some close their tab
// halfway, and some of those return. One process is killed, and its peers return.

import { setTimeout as pause } from 'node:timers/promises'

const SAMPLE_MS = 250
/** The average share of the page that a wave has when the next one joins. */
const NEXT_WAVE_AT = 0.3
/** One peer in this many of each wave but the last leaves at `LEAVES_WITH`. Every second of them returns. */
const LEAVES_ONE_IN = 5
const LEAVES_WITH = 0.4

const PUBLISHER = 'publisher'

/**
 * Runs the scenario with `count` peers besides the publisher, which has the first of `processCount` processes to itself.
 * Resolves when every remaining peer has the whole page, with samples and with the hash of each peer's content.
 * @param {Record<string, any>} scenario
 */
export async function playChurn({ peers, server, count, processCount, waves, bytes, timeoutMs, onProgress = () => {} }) {
  const names = Array.from({ length: count }, (_, i) => `peer ${i + 1}`)
  const homes = new Map(names.map((name, i) => [name, 1 + (i % (processCount - 1))]))
  const size = Math.ceil(count / waves)
  const here = new Set([PUBLISHER])
  const leaving = new Set()
  const returning = new Set()
  const samples = []
  let serverResidentMax = 0

  const hash = await peers.publish(PUBLISHER, 0, bytes)
  const began = Date.now()

  const arrive = (coming) =>
    Promise.all(
      coming.map((name) => {
        here.add(name)
        return peers.arrive(name, homes.get(name))
      }),
    )

  async function depart() {
    for (const name of leaving) {
      if ((peers.report(name)?.share ?? 0) < LEAVES_WITH) continue
      await peers.leave(name)
      leaving.delete(name)
      here.delete(name)
    }
  }

  async function crash() {
    for (const [name, home] of homes) {
      if (home !== processCount - 1 || !here.delete(name)) continue
      leaving.delete(name)
      returning.add(name)
    }
    await peers.crash(processCount - 1)
  }

  async function until(isDone, what) {
    for (;;) {
      await depart()
      serverResidentMax = Math.max(serverResidentMax, server.residentBytes())
      const sample = sampleOf(
        [...here].flatMap((name) => peers.report(name) ?? []),
        peers,
        bytes,
      )
      samples.push(sample)
      const progress = `${((sample.at - began) / 1000).toFixed(0)} s, ${what}: ${here.size} present, ${sample.complete} have all, ${(sample.share * 100).toFixed(0)} % on average, ${sample.directConnections} direct connections`
      onProgress(progress)
      if (isDone()) return
      if (Date.now() - began > timeoutMs)
        throw new Error(`timed out after ${progress}\n${stragglers([...here].flatMap((name) => peers.report(name) ?? { id: name }))}`)
      await pause(SAMPLE_MS)
    }
  }

  for (let wave = 0; wave < waves - 1; wave++) {
    const coming = names.slice(wave * size, (wave + 1) * size)
    await arrive(coming)
    coming
      .filter((_, i) => i % LEAVES_ONE_IN === LEAVES_ONE_IN - 1)
      .forEach((name, i) => {
        leaving.add(name)
        if (i % 2 === 0) returning.add(name)
      })
    // A peer that has left had at least that share.
    const shareOf = (name) => (here.has(name) ? (peers.report(name)?.share ?? 0) : 1)
    await until(() => coming.reduce((sum, name) => sum + shareOf(name), 0) >= coming.length * NEXT_WAVE_AT, `wave ${wave + 1} of ${waves}`)
    if (wave === Math.floor(waves / 2) - 1) await crash()
  }
  await until(() => leaving.size === 0, 'the leaving peers have left')
  await arrive([...names.slice((waves - 1) * size), ...returning])
  await until(() => [...here].every((name) => peers.report(name)?.phase === 'complete'), `wave ${waves} of ${waves}`)
  const endedAt = Date.now()
  const hashes = new Map()
  for (const name of here) hashes.set(name, await peers.hash(name))
  return {
    hash,
    hashes,
    began,
    endedAt,
    samples,
    here: [...here].map((name) => peers.report(name)),
    past: peers.past,
    returned: returning.size,
    serverResidentMax,
  }
}

function sampleOf(reports, { past }, bytes) {
  const all = [...reports, ...past]
  const sum = (figure) => all.reduce((total, each) => total + each[figure], 0)
  const published = reports.find(({ id }) => id === PUBLISHER)
  return {
    at: Date.now(),
    here: reports.length,
    complete: reports.filter(({ phase }) => phase === 'complete').length,
    share: reports.reduce((total, each) => total + each.share, 0) / Math.max(1, reports.length),
    directConnections: reports.reduce((total, { connections }) => total + connections, 0) / 2,
    directBytes: sum('receivedBytes'),
    relayedBytes: sum('relayedBytes'),
    relayedWhileDirect: sum('relayedWhileDirect'),
    copies: published === undefined ? 0 : (published.sentBytes + published.relayedBytes) / bytes,
  }
}

/** The reports of some peers that are not complete. */
function stragglers(reports) {
  return reports
    .filter(({ phase }) => phase !== 'complete')
    .slice(0, 5)
    .map((each) => JSON.stringify(each))
    .join('\n')
}

export { PUBLISHER }
