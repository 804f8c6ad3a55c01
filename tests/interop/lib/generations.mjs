// The npm client in the versions that are in the field, each as its publisher made it.

import { XMLHttpRequest } from './xml_http_request.mjs'

// Clients up to 1.7 look for a browser's window when they load; 1.8 is loaded before there is
// one, and so uses fetch, as it does in Node and in workers.
const withoutWindow = ['1.8.16', '1.8.12']
const withWindow = ['1.7.21', '1.6.16', '1.5.14', '1.4.17', '1.3.4']

async function load(version) {
  const module = await import(`phoenix-${version}`)
  const { Socket, Presence, LongPoll } = module.Socket ? module : module.default
  const [major, minor, patch] = version.split('.').map(Number)
  const isAtLeast = (a, b, c = 0) => major - a || minor - b || patch - c
  const since = (...v) => isAtLeast(...v) >= 0
  return Object.freeze({
    version,
    Socket,
    Presence,
    LongPoll,
    /** Repeats its joins at the pace of its reconnects, answered or not. */
    repeatsJoins: !since(1, 4),
    /** Takes a `vsn`, so that it can speak V1. */
    choosesVersion: since(1, 4),
    /** Leaves a topic itself before it joins it again. */
    leavesBeforeRejoin: since(1, 5),
    /** Understands binary frames. */
    speaksBinary: since(1, 5),
    /** Understands that a long poll was refused. */
    understandsForbidden: since(1, 5),
    /** Puts many frames, and binary ones, into one POST. */
    batches: since(1, 7),
    /** Turns to long poll when the websocket does not come. */
    fallsBack: since(1, 7),
    /** Has `authToken`. */
    authenticates: since(1, 8),
    /** Connects anew when its long-poll session is lost. */
    noticesLostSession: since(1, 8, 2),
    /** Has `socket.ping`. */
    pings: typeof Socket.prototype.ping === 'function',
  })
}

async function loadAll(versions) {
  const loaded = []
  for (const version of versions) loaded.push(await load(version))
  return loaded
}

const modern = await loadAll(withoutWindow)
globalThis.window = { XMLHttpRequest, addEventListener() {} }
const older = await loadAll(withWindow)

/** Every generation, newest first. */
export const generations = [...modern, ...older]

export const newest = generations[0]
