// People whose browsers may reach each other directly, and what their connections say of themselves.

import { BY_RELAY_ONLY, DIRECT_ON_LOOPBACK, launch } from '../lib/chromium.mjs'
import { Person } from './people.mjs'

/**
 * Somebody comes with a browser of their own that may make direct connections; with `isOff`, one that has WebRTC but is
 * forbidden to use it; with `beside`, in the same process as somebody else, and another profile. Every connection their
 * tabs make is remembered.
 */
export async function arriveDirect(t, server, { isOff = false, beside = null } = {}) {
  const browser = beside?.tab.context().browser() ?? (await launch(isOff ? BY_RELAY_ONLY : DIRECT_ON_LOOPBACK))
  if (beside === null) t.after(() => browser.close())
  const context = await browser.newContext()
  await context.addInitScript(() => {
    const Browser = window.RTCPeerConnection
    window.lines = []
    window.RTCPeerConnection = class extends Browser {
      constructor(configuration) {
        super(configuration)
        window.lines.push(this)
      }
    }
  })
  if (!isOff) await context.grantPermissions(['microphone'], { origin: `http://localhost:${server.port}` })
  return Person.inContext(server, context)
}

/** Each connection that a tab made: how it stands, and whom it asked. */
export function linesOf(person) {
  return person.tab.evaluate(() =>
    window.lines.map((line) => ({
      state: line.connectionState, stun: line.getConfiguration().iceServers.flatMap(({ urls }) => urls),
    })))
}

/** Whether both have a connection that is up. */
export async function areLinked(...people) {
  const lines = await Promise.all(people.map(linesOf))
  return lines.every((each) => each.some(({ state }) => state === 'connected'))
}

/** What the pair of addresses in use carried, by the browser's own statistics. */
export function pairOf(person) {
  return person.tab.evaluate(async () => {
    for (const line of window.lines) {
      const stats = [...(await line.getStats()).values()]
      const transport = stats.find(({ type }) => type === 'transport')
      const pair = stats.find(({ id }) => id === transport?.selectedCandidatePairId)
      if (pair === undefined) continue
      const candidate = (id) => stats.find((each) => each.id === id)
      const told = (id) => `${candidate(id).candidateType} ${candidate(id).address}`
      return { ...pair, local: told(pair.localCandidateId), remote: told(pair.remoteCandidateId) }
    }
    return null
  })
}

/**
 * The connections break at this end, without a word from the app, once so many bytes have come over one of them. The tab
 * itself looks for that: by the time a test has asked, all may be there. Answers how much came directly, and how much of
 * the page was there.
 */
export function cutLinesAfter(person, bytes) {
  return person.tab.evaluate(async (bytes) => {
    const cameDirectly = async () => {
      const pairs = []
      for (const line of window.lines) {
        for (const each of (await line.getStats()).values()) if (each.type === 'candidate-pair') pairs.push(each.bytesReceived)
      }
      return Math.max(0, ...pairs)
    }
    for (;;) {
      const directly = await cameDirectly()
      if (directly >= bytes) {
        for (const line of window.lines) line.close()
        const bar = document.querySelector('progress')
        return { directly, here: bar === null ? 1 : bar.value / bar.max }
      }
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  }, bytes)
}
