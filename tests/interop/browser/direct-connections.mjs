// Visitors whose browsers can connect directly, and the statistics of their connections.

import { removeWebTransport } from '../lib/chromium.mjs'
import { engineOfTests } from '../lib/engines/index.mjs'
import { PageDriver } from './page-driver.mjs'

/**
 * Opens a browser that may make direct connections. With `isOff`, the browser has WebRTC but may not
 * use it. With `beside`, the new profile runs in the same process as that visitor. Every connection of
 * the tabs is recorded. The browser has WebTransport only with `webTransport`.
 */
export async function newDirectVisitor(
  t,
  server,
  { isOff = false, webTransport = false, snap = false, beside = null, engine = engineOfTests } = {},
) {
  const direct = !isOff
  const browser = beside?.tab.context().browser() ?? (await engine.launch({ direct, snap }))
  if (beside === null) t.after(() => browser.close())
  const context = await browser.newContext()
  // A browser without either kind of connection has nothing to record or remove.
  if (engine.canConnectDirectly) {
    await recordConnections(context)
    await context.addInitScript(webTransport ? recordSessions : removeWebTransport)
  }
  return PageDriver.inContext(server, context, { engine, direct })
}

/** Whether both descriptions of the open connection start SCTP (SNAP). */
export function usesSnap({ tab }) {
  return tab.evaluate(() =>
    window.peerConnections
      .filter(({ connectionState }) => connectionState === 'connected')
      .every(({ localDescription, remoteDescription }) =>
        [localDescription, remoteDescription].every(({ sdp }) => sdp.includes('a=sctp-init:')),
      ),
  )
}

/** Records every connection that the tabs of a browser make, for the functions below. */
export function recordConnections(context) {
  return context.addInitScript(() => {
    const Browser = window.RTCPeerConnection
    window.peerConnections = []
    window.RTCPeerConnection = class extends Browser {
      constructor(configuration) {
        super(configuration)
        window.peerConnections.push(this)
      }
    }
  })
}

/** Records the kind of every signal that the tabs of a browser send to their server. */
export function recordSignals(context) {
  return context.addInitScript(() => {
    window.sentSignals = []
    const { send } = WebSocket.prototype
    WebSocket.prototype.send = function (data) {
      if (typeof data !== 'string') {
        const bytes = ArrayBuffer.isView(data)
          ? new Uint8Array(data.buffer, data.byteOffset, data.byteLength)
          : new Uint8Array(/** @type {ArrayBuffer} */ (data))
        const textAt = (from, length) => new TextDecoder().decode(bytes.subarray(from, from + length))
        // A binary message of Phoenix: the kind, four lengths, and then the texts; the last one is the event.
        const [, joinRef, ref, topic, event] = bytes
        const eventAt = 5 + joinRef + ref + topic
        // Then the peer, of eight bytes.
        if (textAt(eventAt, event) === 'signal') window.sentSignals.push(JSON.parse(textAt(eventAt + event + 8, bytes.length)).kind)
      }
      return send.call(this, data)
    }
  })
}

/** The kinds of the signals that a tab has sent since it was loaded. */
export function sentSignalsOf(person) {
  return person.tab.evaluate(() => window.sentSignals)
}

/** Records every WebTransport session of a tab that opened, and the bytes that arrive in it. */
function recordSessions() {
  const Browser = window.WebTransport
  window.sessions = []
  // Empty documents and sealed frames are no secure contexts.
  if (Browser === undefined) return
  window.WebTransport = class extends Browser {
    constructor(url, options) {
      super(url, options)
      const session = { isOpen: false, received: 0 }
      this.ready.then(
        () => {
          session.isOpen = true
          window.sessions.push(session)
        },
        () => {},
      )
      this.closed.catch(() => {}).then(() => (session.isOpen = false))
      const reader = super.incomingBidirectionalStreams.getReader()
      const streams = new ReadableStream({
        async pull(controller) {
          const { value } = await reader.read()
          if (value === undefined) return controller.close()
          const count = new TransformStream({
            transform(bytes, counted) {
              session.received += bytes.length
              counted.enqueue(bytes)
            },
          })
          controller.enqueue({ readable: value.readable.pipeThrough(count), writable: value.writable })
        },
      })
      Object.defineProperty(this, 'incomingBidirectionalStreams', { get: () => streams })
    }
  }
}

/** The WebTransport sessions that opened in a tab. */
export function sessionsOf(person) {
  return person.tab.evaluate(() => window.sessions)
}

/** The state and the STUN servers of each connection that a tab made. */
export function connectionsOf(person) {
  return person.tab.evaluate(() =>
    window.peerConnections.map((connection) => ({
      state: connection.connectionState,
      stun: connection.getConfiguration().iceServers.flatMap(({ urls }) => urls),
    })),
  )
}

/** The kinds of the descriptions of each connection: the caller's own is an offer. */
export function descriptionsOf(person) {
  return person.tab.evaluate(() =>
    window.peerConnections.map(({ localDescription, remoteDescription }) => ({
      ours: localDescription?.type,
      theirs: remoteDescription?.type,
    })),
  )
}

/** Whether every visitor has a connection that is up. */
export async function areConnected(...people) {
  const perPerson = await Promise.all(people.map(connectionsOf))
  return perPerson.every((each) => each.some(({ state }) => state === 'connected'))
}

/** The statistics of the candidate pair in use, from the browser, with the bytes that arrived over all of them: lanes have their own. */
export function candidatePairOf(person) {
  return person.tab.evaluate(async () => {
    const pairs = []
    for (const connection of window.peerConnections) {
      const stats = [...(await connection.getStats()).values()]
      const transport = stats.find(({ type }) => type === 'transport')
      const pair = stats.find(({ id }) => id === transport?.selectedCandidatePairId)
      if (pair === undefined) continue
      const candidate = (id) => stats.find((each) => each.id === id)
      const described = (id) => `${candidate(id).candidateType} ${candidate(id).address}`
      pairs.push({ ...pair, local: described(pair.localCandidateId), remote: described(pair.remoteCandidateId) })
    }
    if (pairs.length === 0) return null
    return { ...pairs[0], bytesReceived: pairs.reduce((sum, { bytesReceived }) => sum + bytesReceived, 0) }
  })
}

/**
 * Closes the connections at this end, without the app's knowledge, once this many bytes have arrived over all of
 * them: lanes share what arrives. The tab itself checks this, because a test that polls would be too late. Returns the bytes that arrived
 * directly and the loaded share of the page.
 */
export function closeConnectionsAfter(person, bytes) {
  return person.tab.evaluate(async (bytes) => {
    const receivedDirectly = async () => {
      let received = 0
      for (const connection of window.peerConnections) {
        for (const each of (await connection.getStats()).values()) if (each.type === 'candidate-pair') received += each.bytesReceived
      }
      return received
    }
    for (;;) {
      const directly = await receivedDirectly()
      if (directly >= bytes) {
        for (const connection of window.peerConnections) connection.close()
        const bar = document.querySelector('progress')
        return { directly, here: bar === null ? 1 : bar.value / bar.max }
      }
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  }, bytes)
}
