// The npm client in the versions that are in use, unmodified.

import assert from 'node:assert/strict'

import { XMLHttpRequest } from './xml-http-request.mjs'

// Clients up to 1.7 look for a browser's window when they load. 1.8 is loaded before a window exists,
// and therefore uses fetch, as it does in Node and in workers.
const withoutWindow = ['1.8.16', '1.8.12']
const withWindow = ['1.7.21', '1.6.16', '1.5.14', '1.4.17', '1.3.4']

/** The versions that are tested: all, or those of `INTEROP_CLIENTS`, separated by commas. */
const chosen = process.env.INTEROP_CLIENTS?.split(',') ?? [...withoutWindow, ...withWindow]
for (const version of chosen) assert([...withoutWindow, ...withWindow].includes(version), `phoenix ${version} is not installed`)

// The published clients leave timers behind when they disconnect: heartbeats of 30 s, and fetch timeouts of 20 s. Unreferenced
// timers do not keep the test process alive. While a test runs, its server's pipes do.
for (const name of ['setTimeout', 'setInterval']) {
  const original = globalThis[name]
  globalThis[name] = (...args) => original(...args).unref()
}

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
    /** Repeats its joins at the interval of its reconnects, with or without a reply. */
    repeatsJoins: !since(1, 4),
    /** Accepts a `vsn`, so that it can use V1. */
    acceptsVersion: since(1, 4),
    /** Supports binary frames. */
    supportsBinary: since(1, 5),
    /** Handles a long poll that was rejected. */
    handlesRejection: since(1, 5),
    /** Sends many frames, binary ones included, in one POST. */
    batches: since(1, 7),
    /** Falls back to long poll when the WebSocket fails. */
    fallsBack: since(1, 7),
    /** Has `authToken`. */
    authenticates: since(1, 8),
    /** Reconnects when its long-poll session is lost. */
    detectsLostSession: since(1, 8, 2),
    /** Has `socket.ping`. */
    pings: typeof Socket.prototype.ping === 'function',
  })
}

async function loadAll(versions) {
  const loaded = []
  for (const version of versions.filter((version) => chosen.includes(version))) loaded.push(await load(version))
  return loaded
}

const modern = await loadAll(withoutWindow)
Object.assign(globalThis, { window: { XMLHttpRequest, addEventListener() {} } })
const older = await loadAll(withWindow)

/** Every version that is tested, newest first. */
export const phoenixClients = [...modern, ...older]

export const newest = phoenixClients[0]
